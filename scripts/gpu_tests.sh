#!/usr/bin/env bash
# Runs what needs a GPU on a machine that has one, where nothing can be built or installed.
#
#   scripts/gpu_tests.sh pack [PRESET]   gathers programs of a build (dev) and all their libraries but libc's in .gpu/
#   scripts/gpu_tests.sh run [OUT]       there, beside .gpu/: runs them, results go to OUT (gpu_results)
#
# The copy needs a glibc no older than the build's, and an NVIDIA driver.
set -euo pipefail
. "$(dirname "$0")/common.sh"
cd "$root"

programs=(penstock cuda_test kernels_test model_test)

pack() {
  local build=build/${1:-dev}/src program
  build "${1:-dev}" "${programs[@]}"
  rm -rf .gpu && mkdir -p .gpu/lib
  for program in "${programs[@]}"; do
    strip -o ".gpu/$program" "$build/$program"
    # The loader, libc and libm come from the machine itself: they belong together.
    ldd "$build/$program" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm)\.so/ { print $3 }' | xargs -r -I{} cp -Lu {} .gpu/lib/
  done
  du -sh .gpu
}

# What runs nowhere else.
gpu_only='Nvidia/*:CudaLibrary.*:*GpuKernelTest*:*GpuMatmulTest*'

run() {
  local out=${1:-gpu_results}
  mkdir -p "$out"
  export LD_LIBRARY_PATH=$root/.gpu/lib
  nvidia-smi --query-gpu=name,uuid,driver_version,memory.total,pcie.link.gen.max,pcie.link.width.max --format=csv | tee "$out/gpu.csv"
  lscpu > "$out/cpu.txt"
  export PENSTOCK_GOLDEN=$root/tests/golden
  local failed=0 test
  for test in cuda_test kernels_test model_test; do
    .gpu/$test --gtest_filter="$gpu_only" --gtest_output="json:$out/$test.json" > "$out/$test.txt" 2>&1 || failed=1
    tail -n 3 "$out/$test.txt"
  done
  if command -v compute-sanitizer > /dev/null; then
    compute-sanitizer --report-api-errors no --error-exitcode 3 .gpu/cuda_test --gtest_filter="$gpu_only" > "$out/memcheck.txt" 2>&1 || failed=1
    # Not API errors: a kernel is looked for in one module after the other.
    compute-sanitizer --report-api-errors no --error-exitcode 3 .gpu/kernels_test --gtest_filter="$gpu_only" >> "$out/memcheck.txt" 2>&1 || failed=1
    # What shares memory within a thread block; the products of one format stand for all.
    compute-sanitizer --tool racecheck --error-exitcode 3 .gpu/kernels_test --gtest_filter="*GpuKernelTest*:*GpuMatmulTest*nvfp4:*GpuMatmulTest*bf16" > "$out/racecheck.txt" 2>&1 || failed=1
    tail -n 3 "$out/memcheck.txt" "$out/racecheck.txt"
  fi
  .gpu/penstock doctor --quick --json > "$out/doctor.json" || failed=1
  return $failed
}

case ${1:-} in
  pack) pack "${2:-dev}" ;;
  run) run "${2:-gpu_results}" ;;
  *) sed -n '2,7p' "$0" >&2; exit 2 ;;
esac
