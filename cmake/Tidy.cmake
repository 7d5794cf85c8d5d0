# The target tidy: clang-tidy over every file of src/ (what it checks: .clang-tidy). Nothing is compiled for it.
find_program(RUN_CLANG_TIDY run-clang-tidy-19)
if(RUN_CLANG_TIDY)
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  add_custom_target(tidy
    COMMAND ${RUN_CLANG_TIDY} -clang-tidy-binary clang-tidy-19 -p ${CMAKE_BINARY_DIR} -quiet -j ${cores} ${CMAKE_SOURCE_DIR}/src/
    USES_TERMINAL VERBATIM)
else()
  add_custom_target(tidy
    COMMAND ${CMAKE_COMMAND} -E echo "error: run-clang-tidy-19 is not installed; scripts/setup.sh --all installs it"
    COMMAND ${CMAKE_COMMAND} -E false
    VERBATIM)
endif()
