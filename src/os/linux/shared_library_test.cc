#include "os/shared_library.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(SharedLibrary, FunctionsByName) {
  const auto library = SharedLibrary::open("libm.so.6");
  ASSERT_TRUE(library) << library.error().message;
  auto* const floor_of = library->function<double(double)>("floor");
  ASSERT_NE(floor_of, nullptr);
  EXPECT_EQ(floor_of(2.5), 2.0);
  EXPECT_EQ(library->function<void()>("no_such_function_in_libm"), nullptr);
}

TEST(SharedLibrary, OneThatIsNotThereIsNotFound) {
  const auto library = SharedLibrary::open("libpenstock-none.so.1");
  ASSERT_FALSE(library);
  EXPECT_EQ(library.error().kind, ErrorKind::kNotFound);
  EXPECT_NE(library.error().message.find("libpenstock-none.so.1"), std::string::npos);
}

}  // namespace
}  // namespace penstock
