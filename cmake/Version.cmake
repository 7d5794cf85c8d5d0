# base/version.h reads these; the commit is that of the last configure or build, "+changes" when the tree differs.
find_package(Git QUIET)
set(PENSTOCK_COMMIT "unknown")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${CMAKE_SOURCE_DIR} describe --always --dirty=+changes --abbrev=12
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(PENSTOCK_COMMIT ${described})
  endif()
endif()
configure_file(${CMAKE_SOURCE_DIR}/src/base/version.cc.in ${CMAKE_BINARY_DIR}/generated/version.cc @ONLY)
