// What Linux may refuse of direct I/O, and what is done then.
#include "os/direct_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "os/child_process_test.h"
#include "os/known_file_test.h"

namespace penstock {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// sysfs has files that say they are regular and takes no O_DIRECT.
TEST(DirectFile, FallsBackToThePageCacheAndSaysSo) {
  const std::filesystem::path path = "/sys/kernel/mm/transparent_hugepage/enabled";
  if (!path_exists(path)) GTEST_SKIP() << "no " << path;
  const auto file = DirectFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(file->is_direct());
  EXPECT_THAT(file->note(), HasSubstr(path.string() + " is read through the page cache"));

  // It claims a whole OS page and has fewer bytes, which makes it a file that ends too early.
  const auto memory = AnonymousMemory::reserve(kDirectAlignment, OsPages::kNormal).value();
  const ReadRequest request = {.file = &*file, .offset = 0, .out = memory.bytes()};
  const auto queue = ReadQueue::make().value();
  const auto done = queue->submit(std::span(&request, 1)).wait();
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("is too short: wanted 4096 bytes from offset 0"));
  EXPECT_THAT(as_text(memory.bytes()), HasSubstr("madvise")) << "what there was has been read";
}

// From now on io_uring_setup(2) fails with `code`, as in containers; false where that cannot be
// had.
bool refuse_io_uring(unsigned code) {
  std::array program = {
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | code),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {.len = program.size(), .filter = program.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(ReadQueue, ThreadsTakeOverWhereIoUringIsRefused) {
  const KnownFile file(4 * kMiB);
  for (const unsigned code : {EPERM, ENOSYS, ENOMEM}) {
    const std::string said = said_by_child([&]() -> std::string {
      if (!refuse_io_uring(code)) return "skip";
      const auto queue = ReadQueue::make();
      if (!queue) return queue.error().message;
      ReadsInFlight reads(**queue, file, {{123, 3 * kMiB}}, ReadPriority::kDemand);
      if (const auto done = reads.batch().wait(); !done) return done.error().message;
      if (!reads.is_right(0)) return "read wrong";
      return fmt::format("{}: {}", (*queue)->backend(), (*queue)->note());
    });
    if (said == "skip") GTEST_SKIP() << "no seccomp filters here";
    EXPECT_THAT(said, StartsWith("threads: cannot set up io_uring: "));
    EXPECT_THAT(said, testing::EndsWith("; 16 threads read instead"));
  }
}

}  // namespace
}  // namespace penstock
