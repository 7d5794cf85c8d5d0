# base/version.h reads these. The commit is asked for by each build, not each configure: a binary measured
# after a commit names that commit.
configure_file(${CMAKE_SOURCE_DIR}/src/base/version.cc.in ${CMAKE_BINARY_DIR}/generated/version.cc @ONLY)
add_custom_target(commit
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${CMAKE_SOURCE_DIR} -D BINARY=${CMAKE_BINARY_DIR} -P ${CMAKE_CURRENT_LIST_DIR}/WriteCommit.cmake
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/commit.cc
  COMMENT "" VERBATIM)
