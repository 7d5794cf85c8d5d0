#include "server/error_response.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace penstock {
namespace {

TEST(ErrorResponse, EveryKindHasItsStatus) {
  const std::pair<ErrorKind, unsigned> expected[] = {
      {ErrorKind::kInvalidArgument, 400},
      {ErrorKind::kInvalidData, 400},
      {ErrorKind::kUnsupported, 400},
      {ErrorKind::kNotFound, 404},
      {ErrorKind::kIo, 500},
      {ErrorKind::kExhausted, 429},
      {ErrorKind::kUnavailable, 503},
      {ErrorKind::kCancelled, 503},
      {ErrorKind::kInternal, 500},
  };
  for (const auto& [kind, status] : expected) EXPECT_EQ(http_status(kind), status);
}

TEST(ErrorResponse, IsOpenAisObject) {
  Error error{ErrorKind::kInvalidArgument, "top_p is 2, but must be from 0 to 1"};
  error.param = "top_p";
  EXPECT_EQ(parse_json(error_body(error)).value(), Json::parse(R"({"error":{
      "message":"top_p is 2, but must be from 0 to 1","type":"invalid_request_error",
      "param":"top_p","code":null}})"));
  EXPECT_EQ(parse_json(error_body(404, "there is no /x")).value(), Json::parse(R"({"error":{
      "message":"there is no /x","type":"invalid_request_error","param":null,"code":null}})"));
}

TEST(ErrorResponse, BytesThatAreNotUtf8DoNotBreakIt) {
  EXPECT_TRUE(parse_json(error_body({ErrorKind::kNotFound, "no \xff here"})));
}

TEST(ErrorResponse, OverloadSaysWhenToComeAgain) {
  EXPECT_TRUE(error_response({ErrorKind::kExhausted, "x"}).retry_later);
  EXPECT_TRUE(error_response({ErrorKind::kUnavailable, "x"}).retry_later);
  EXPECT_FALSE(error_response({ErrorKind::kInvalidArgument, "x"}).retry_later);
}

}  // namespace
}  // namespace penstock
