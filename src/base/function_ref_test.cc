#include "base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>

namespace penstock {
namespace {

int twice(FunctionRef<int(int)> f) { return f(1) + f(10); }

TEST(FunctionRef, CallsTheLambdaItWasGivenWithItsState) {
  int calls = 0;
  EXPECT_EQ(twice([&](int x) { return ++calls, 2 * x; }), 22);
  EXPECT_EQ(calls, 2);
}

TEST(FunctionRef, ACopyCallsTheSameObject) {
  int total = 0;
  auto add = [&](int x) { return total += x; };
  const FunctionRef<int(int)> first(add);
  const FunctionRef<int(int)> second = first;
  second(3);
  first(4);
  EXPECT_EQ(total, 7);
}

TEST(FunctionRef, AcceptsConstCallablesAndMoveOnlyArguments) {
  const auto read = [](std::unique_ptr<int> value) { return *value; };
  const FunctionRef<int(std::unique_ptr<int>)> f(read);
  EXPECT_EQ(f(std::make_unique<int>(5)), 5);
}

}  // namespace
}  // namespace penstock
