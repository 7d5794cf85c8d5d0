# cmake -D SOURCE=DIR -D BINARY=DIR -P WriteCommit.cmake: writes generated/commit.cc, and only when it changes.
set(PENSTOCK_COMMIT "unknown")
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} describe --always --dirty=+changes --abbrev=12
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(PENSTOCK_COMMIT ${described})
  endif()
endif()
configure_file(${SOURCE}/src/base/commit.cc.in ${BINARY}/generated/commit.cc @ONLY)
