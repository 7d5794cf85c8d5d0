#include "cli/client/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace penstock {
namespace {

using Events = std::vector<std::string>;

struct Read {
  Events events;
  SseReader::State state = SseReader::State::kMore;
};

Read read_in_pieces(std::string_view stream, size_t first, size_t rest) {
  Read read;
  SseReader reader;
  const auto keep = [&](std::string_view data) {
    read.events.emplace_back(data);
    return true;
  };
  read.state = reader.feed(stream.substr(0, first), keep);
  for (size_t at = first; at < stream.size(); at += rest) {
    read.state = reader.feed(stream.substr(at, rest), keep);
  }
  return read;
}

TEST(SseReader, EveryCutOfEveryLineEndGivesTheSameEvents) {
  const std::string lf =
      ": keep-alive\n\ndata: {\"a\":1}\n\ndata:x\ndata\ndata:  y\n\nevent: z\nid: 7\n\ndata: "
      "[DONE]\n\n";
  const Events expected = {"{\"a\":1}", "x\n\n y", "[DONE]"};
  for (const std::string_view line_end : {"\n", "\r\n", "\r"}) {
    std::string stream;
    for (const char c : lf) {
      if (c == '\n') {
        stream += line_end;
      } else {
        stream += c;
      }
    }
    for (size_t first = 0; first <= stream.size(); ++first) {
      EXPECT_EQ(read_in_pieces(stream, first, stream.size()).events, expected) << first;
    }
    EXPECT_EQ(read_in_pieces(stream, 0, 1).events, expected);
    EXPECT_EQ(read_in_pieces(stream, 1, 3).events, expected);
  }
}

TEST(SseReader, AnEventWithoutItsEmptyLineIsNone) {
  EXPECT_EQ(read_in_pieces("data: a\n\ndata: b\n", 4, 4).events, Events{"a"});
}

TEST(SseReader, EmptyDataIsAnEventAndNoDataIsNone) {
  EXPECT_EQ(read_in_pieces("data\n\n\n\nid: 1\n\n", 3, 3).events, Events{""});
}

TEST(SseReader, WhoeverHasEnoughIsNotToldMore) {
  SseReader reader;
  int n = 0;
  const auto state = reader.feed("data: a\n\ndata: b\n\n", [&](std::string_view) {
    ++n;
    return false;
  });
  EXPECT_EQ(state, SseReader::State::kStopped);
  EXPECT_EQ(n, 1);
}

TEST(SseReader, AnEndlessEventIsGivenUp) {
  const auto ignore = [](std::string_view) { return true; };
  SseReader one_line(/*max_event_bytes=*/10);
  EXPECT_EQ(one_line.feed("data: 6789", ignore), SseReader::State::kMore);
  EXPECT_EQ(one_line.feed("x", ignore), SseReader::State::kTooLong);
  SseReader many_lines(/*max_event_bytes=*/10);
  EXPECT_EQ(many_lines.feed("data:1\ndata:2\ndata:3\n", ignore), SseReader::State::kMore);
  EXPECT_EQ(many_lines.feed("data:4\n", ignore), SseReader::State::kTooLong);
}

}  // namespace
}  // namespace penstock
