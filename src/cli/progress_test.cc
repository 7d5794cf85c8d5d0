#include "cli/progress.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "base/units.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::Not;

// What a display wrote, and a clock that stands still until it is set.
class ProgressTest : public testing::Test {
 protected:
  ~ProgressTest() override {
    std::fclose(stream_);
    std::free(written_);  // NOLINT: open_memstream's
  }
  ProgressDisplay::Options options(bool terminal) {
    return {.out = stream_,
            .terminal = terminal,
            .columns = [] { return 100; },
            .clock = [this] { return now_; }};
  }
  std::string written() {
    std::fflush(stream_);
    return {written_, size_};
  }

  double now_ = 1000;

 private:
  char* written_ = nullptr;
  size_t size_ = 0;
  std::FILE* stream_ = open_memstream(&written_, &size_);
};

TEST(StageProgress, SaysRateAndRemainingTime) {
  const StageProgress stage = {
      .stage = "reading weights", .done = 2 * kGiB, .total = 6 * kGiB, .seconds = 4};
  EXPECT_EQ(stage.text(), "reading weights  2.0 GiB of 6.0 GiB, 512.0 MiB/s, 8.0 s left");
}

TEST(StageProgress, ResumedWorkCountsOnlyWhatWasDoneNow) {
  const StageProgress stage = {.stage = "writing",
                               .first_done = 4 * kGiB,
                               .done = 5 * kGiB,
                               .total = 6 * kGiB,
                               .seconds = 4};
  EXPECT_THAT(stage.text(), HasSubstr("256.0 MiB/s, 4.0 s left"));
}

TEST(StageProgress, ShowsNoRateBeforeThereIsOne) {
  EXPECT_EQ((StageProgress{.stage = "a", .done = 0, .total = kMiB}.text()), "a  0 B of 1.0 MiB");
  EXPECT_EQ((StageProgress{.stage = "a", .done = kMiB}.text()), "a  1.0 MiB");  // total not known
}

TEST(StageProgress, CountsWhatItsUnitNames) {
  StageProgress stage = {
      .stage = "4 at once", .unit = "requests", .done = 12, .total = 2000, .seconds = 24};
  EXPECT_EQ(stage.text(), "4 at once  12 of 2,000 requests, 0.5/s, 1 h 06 min left");
  stage.total = 0;
  EXPECT_EQ(stage.text(), "4 at once  12 requests, 0.5/s");
  EXPECT_EQ(stage.summary(), "4 at once: 12 requests in 24.0 s, 0.5/s");
}

TEST(StageProgress, BarFitsTheTerminal) {
  const StageProgress stage = {.stage = "a", .done = kMiB, .total = 2 * kMiB, .seconds = 1};
  EXPECT_THAT(stage.bar(100), HasSubstr("[############            ]  50%"));
  for (const int columns : {1, 2, 20, 40, 200}) {
    EXPECT_LT(stage.bar(columns).size(), std::max(columns, 2)) << columns;
  }
}

TEST_F(ProgressTest, PlainLinesComeSecondsApart) {
  ProgressDisplay display(options(/*terminal=*/false));
  const ProgressFn update = display.function();
  for (int i = 0; i <= 110; ++i) {
    update({.stage = "reading", .done = static_cast<uint64_t>(i) * kMiB, .total = 110 * kMiB});
    now_ += 0.1;
  }
  display.finish();
  const std::string text = written();
  EXPECT_EQ(std::ranges::count(text, '\n'), 3) << text;  // after 5 and 10 seconds, and the summary
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, HasSubstr("reading: 110.0 MiB in 11.0 s, 10.0 MiB/s\n"));
}

TEST_F(ProgressTest, ATerminalLineIsRedrawnInPlace) {
  ProgressDisplay display(options(/*terminal=*/true));
  const ProgressFn update = display.function();
  for (int i = 0; i <= 10; ++i) {
    update({.stage = "reading", .done = static_cast<uint64_t>(i) * kMiB, .total = 10 * kMiB});
    now_ += 0.2;
  }
  EXPECT_EQ(std::ranges::count(written(), '\n'), 0);
  EXPECT_THAT(written(), HasSubstr("\r\x1b[Kreading  [########"));
  display.finish();
  EXPECT_TRUE(written().ends_with("\r\x1b[Kreading: 10.0 MiB in 2.0 s, 5.0 MiB/s\n")) << written();
}

TEST_F(ProgressTest, EachStageEndsWithItsOwnSummary) {
  {
    ProgressDisplay display(options(/*terminal=*/false));
    const ProgressFn update = display.function();
    for (const char* stage : {"first", "second"}) {
      update({.stage = stage, .done = 0, .total = kMiB});
      now_ += 6;
      update({.stage = stage, .done = kMiB, .total = kMiB});
    }
  }
  EXPECT_THAT(written(), HasSubstr("first: 1.0 MiB in 6.0 s"));
  EXPECT_THAT(written(), HasSubstr("second: 1.0 MiB in 6.0 s"));
}

TEST_F(ProgressTest, ShortWorkLeavesNoLine) {
  {
    ProgressDisplay display(options(/*terminal=*/true));
    display.function()({.stage = "reading", .done = kMiB, .total = kMiB});
  }
  EXPECT_EQ(written(), "");
}

}  // namespace
}  // namespace penstock
