# What cmake/Dependencies.cmake finds for Linux, for the cross-build. Libraries that are headers come from
# /usr/include, which itself must stay out of sight (its C library is not Windows'): a folder of links has only them.
find_package(Threads REQUIRED)
set(PENSTOCK_WINDOWS_INCLUDE ${CMAKE_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${PENSTOCK_WINDOWS_INCLUDE})
foreach(library fmt spdlog nlohmann)
  if(NOT EXISTS /usr/include/${library})
    message(FATAL_ERROR "/usr/include/${library} is not there: install scripts/packages.txt")
  endif()
  file(CREATE_LINK /usr/include/${library} ${PENSTOCK_WINDOWS_INCLUDE}/${library} SYMBOLIC)
endforeach()
set(FMT_INCLUDE_DIR ${PENSTOCK_WINDOWS_INCLUDE})
set(SPDLOG_INCLUDE_DIR ${PENSTOCK_WINDOWS_INCLUDE})
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
set_target_properties(nlohmann_json::nlohmann_json PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${PENSTOCK_WINDOWS_INCLUDE})

if(PENSTOCK_TESTS)
  # Debian ships GoogleTest's sources, in libgtest-dev's googletest.
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  if(NOT TARGET GTest::gmock)
    add_library(GTest::gmock ALIAS gmock)
  endif()
endif()
