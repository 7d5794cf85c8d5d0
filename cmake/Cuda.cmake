# GPU code is compiled where nvcc is found; host code never needs the toolkit. PENSTOCK_GPU=OFF leaves it out.
#
# Every .cu below src/kernels becomes a fat binary with machine code for PENSTOCK_GPU_ARCHS and PTX for
# PENSTOCK_GPU_PTX, and is embedded: a generated source lists them all (kernels/gpu/gpu_modules.h). One for each file, so that
# they compile beside each other and what is changed is compiled alone; the driver sees their kernels as one set.
option(PENSTOCK_GPU "Build the GPU kernels where nvcc is found" ON)
set(PENSTOCK_GPU_ARCHS "80;86;89;90;120" CACHE STRING "Compute capabilities to compile machine code for")
set(PENSTOCK_GPU_PTX "80;90" CACHE STRING "Compute capabilities to embed PTX for, which later GPUs compile at start")

set(PENSTOCK_CU "")
set(PENSTOCK_GPU_BUILT "none")  # what --version says
if(NOT PENSTOCK_GPU)
  message(STATUS "GPU code: none (PENSTOCK_GPU is OFF)")
else()
  find_program(NVCC nvcc HINTS /usr/local/cuda/bin)
  if(NVCC)
    file(GLOB_RECURSE PENSTOCK_CU CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/*.cu)
    list(TRANSFORM PENSTOCK_GPU_ARCHS PREPEND "sm_" OUTPUT_VARIABLE machine_code)
    list(TRANSFORM PENSTOCK_GPU_PTX PREPEND "compute_" OUTPUT_VARIABLE ptx)
    list(JOIN machine_code " " PENSTOCK_GPU_BUILT)
    list(JOIN ptx " " ptx)
    string(STRIP "${PENSTOCK_GPU_BUILT} ${ptx}" PENSTOCK_GPU_BUILT)
    message(STATUS "GPU code: ${PENSTOCK_GPU_BUILT}, by ${NVCC}")
  else()
    message(STATUS "GPU code: none (nvcc was not found)")
  endif()
endif()

# Adds the embedded modules to the library `target`.
function(penstock_embed_gpu_modules target)
  set(gencode "")
  foreach(arch ${PENSTOCK_GPU_ARCHS})
    list(APPEND gencode -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  foreach(arch ${PENSTOCK_GPU_PTX})
    list(APPEND gencode -gencode arch=compute_${arch},code=compute_${arch})
  endforeach()
  set(folder ${CMAKE_BINARY_DIR}/generated/gpu)
  file(MAKE_DIRECTORY ${folder})
  set(declarations "")
  set(entries "")
  set(images "")
  foreach(source ${PENSTOCK_CU})
    get_filename_component(name ${source} NAME_WE)
    set(image ${folder}/${name}.fatbin)
    add_custom_command(OUTPUT ${image}
      COMMAND ${NVCC} -fatbin -std=c++20 -O3 -I ${CMAKE_SOURCE_DIR}/src ${gencode} -MD -MF ${image}.d -Werror all-warnings
              -o ${image} ${source}
      DEPENDS ${source} DEPFILE ${image}.d COMMENT "Building GPU module ${name}" VERBATIM)
    list(APPEND images ${image})
    string(APPEND declarations
      "asm(\".section .rodata\\n.balign 64\\n.globl penstock_gpu_${name}\\npenstock_gpu_${name}:\\n"
      ".incbin \\\"${image}\\\"\\n.globl penstock_gpu_${name}_end\\npenstock_gpu_${name}_end:\\n.byte 0\\n.text\");\n"
      "extern \"C\" const std::byte penstock_gpu_${name}[], penstock_gpu_${name}_end[];\n")
    string(APPEND entries "{\"${name}\", {penstock_gpu_${name}, penstock_gpu_${name}_end}}, ")
  endforeach()
  list(LENGTH PENSTOCK_CU PENSTOCK_GPU_MODULE_COUNT)
  set(PENSTOCK_GPU_MODULE_DECLARATIONS ${declarations})
  set(PENSTOCK_GPU_MODULE_ENTRIES ${entries})
  set(generated ${CMAKE_BINARY_DIR}/generated/gpu_modules.cc)
  configure_file(${CMAKE_SOURCE_DIR}/src/kernels/gpu/gpu_modules.cc.in ${generated} @ONLY)
  set_source_files_properties(${generated} PROPERTIES OBJECT_DEPENDS "${images}")
  target_sources(${target} PRIVATE ${generated})
endfunction()
