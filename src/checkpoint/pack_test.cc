#include "checkpoint/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "checkpoint/needed_tensors.h"
#include "checkpoint/pack_index.h"
#include "checkpoint/tiny_checkpoint_test.h"
#include "tensor/encode.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// One of each way to store a matrix.
Format mixed_formats(std::string_view name) {
  if (name == "embed") return Format::kQ4_1;
  if (name == "head") return Format::kF16;
  if (name.ends_with(".q")) return Format::kGptq4;
  if (name.ends_with(".k")) return Format::kFp8Channel;
  if (name.ends_with(".v")) return Format::kBF16;
  if (name.ends_with(".o")) return Format::kFp8Block;
  if (name.ends_with("router")) return Format::kF32;
  if (name.ends_with("gate")) return Format::kNvfp4;
  if (name.ends_with("up")) return Format::kMxfp4;
  return Format::kQ8_0;
}

class Pack : public ::testing::Test {
 protected:
  fs::path output() const { return folder_.path() / "out.pack"; }

  PackSummary write(const Checkpoint& source, PackOptions options = {}) {
    options.output = output();
    const auto summary = write_pack(source, options, {}, {});
    EXPECT_TRUE(summary) << summary.error().text();
    return summary.value_or(PackSummary{});
  }

  Checkpoint moe() {
    return make_checkpoint(folder_.path() / "source", tiny_moe_spec(), mixed_formats);
  }

  TestFolder folder_;
};

TEST_F(Pack, HoldsTheSourcesBytes) {
  const Checkpoint source = moe();
  const PackSummary summary = write(source);
  EXPECT_EQ(summary.folder, output());
  EXPECT_EQ(summary.n_tensors, source.tensors.size());
  EXPECT_EQ(summary.n_experts, 8U);
  EXPECT_TRUE(summary.removed.empty());

  const auto pack = open_pack(output());
  ASSERT_TRUE(pack) << pack.error().text();
  EXPECT_EQ(pack->kind, SourceKind::kPack);
  EXPECT_EQ(pack->name, "out.pack");
  EXPECT_EQ(pack->spec, source.spec);
  ASSERT_EQ(pack->tensors.size(), source.tensors.size());
  for (const auto& [name, tensor] : source.tensors) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(pack->tensors.contains(name));
    StoredTensor packed = pack->tensors.at(name);
    EXPECT_EQ(bytes_of(*pack, packed.data), bytes_of(source, tensor.data));
    EXPECT_EQ(bytes_of(*pack, packed.scales), bytes_of(source, tensor.scales));
    EXPECT_EQ(bytes_of(*pack, packed.zeros), bytes_of(source, tensor.zeros));
    EXPECT_EQ(bytes_of(*pack, packed.groups), bytes_of(source, tensor.groups));
    packed.data = tensor.data;
    packed.scales = tensor.scales;
    packed.zeros = tensor.zeros;
    packed.groups = tensor.groups;
    EXPECT_EQ(packed, tensor) << "all but the places";
  }
  EXPECT_TRUE(verify_pack(*pack, {}, {}));
  EXPECT_THAT(folder_.names(), ElementsAre("out.pack", "source"));
}

TEST_F(Pack, HoldsTokenizerTemplateAndConfig) {
  Checkpoint source = moe();
  write(source);
  const auto pack = open_pack(output());
  ASSERT_TRUE(pack);
  EXPECT_EQ(pack->tokenizer.json, source.tokenizer.json);
  EXPECT_TRUE(pack->tokenizer.ggml.is_null());
  EXPECT_EQ(pack->tokenizer.chat_template, source.tokenizer.chat_template);
  EXPECT_EQ(pack->tokenizer.bos_token, "<s>");
  EXPECT_EQ(pack->tokenizer.eos_token, "</s>");
  EXPECT_EQ(pack->generation.eos_ids, source.generation.eos_ids);
  EXPECT_EQ(pack->generation.bos_id, 1);
  EXPECT_EQ(read_file(output() / "config.json"), R"({"model_type": "tiny"})");

  source.tokenizer.json.clear();
  source.tokenizer.ggml = {{"model", "gpt2"}, {"tokens", {"a", "\u0120b"}}, {"scores", {0.1, -1}}};
  source.generation = {};
  write(source, {.if_exists = IfExists::kReplace});
  const auto from_gguf = open_pack(output());
  ASSERT_TRUE(from_gguf) << from_gguf.error().text();
  EXPECT_EQ(from_gguf->tokenizer.ggml, source.tokenizer.ggml);
  EXPECT_TRUE(from_gguf->tokenizer.json.empty());
  EXPECT_EQ(from_gguf->generation.bos_id, std::nullopt);
}

// So that one read or one DMA moves an expert.
TEST_F(Pack, AnExpertIsOneAlignedRegion) {
  write(moe());
  const auto index = read_pack_index(output());
  ASSERT_TRUE(index) << index.error().text();
  int n_experts = 0;
  for (const PackRegion& region : index->regions) {
    EXPECT_EQ(region.extent.offset % 4096, 0U);
    EXPECT_EQ(region.extent.bytes % 4096, 0U);
    if (region.name.find(".experts.") == std::string::npos) continue;
    EXPECT_EQ(index->files[region.extent.file].name, "experts.bin");
    ASSERT_EQ(region.tensors.size(), 3U);
    EXPECT_EQ(region.name, fmt::format("layers.{}.experts.{}", n_experts / 4, n_experts % 4));
    EXPECT_EQ(region.tensors[0].name, region.name + ".gate");
    EXPECT_EQ(region.tensors[1].name, region.name + ".up");
    EXPECT_EQ(region.tensors[2].name, region.name + ".down");
    EXPECT_EQ(region.tensors[0].stored.data.offset, region.extent.offset);
    ++n_experts;
  }
  EXPECT_EQ(n_experts, 8);
}

// Also where no length is a multiple of anything.
TEST_F(Pack, EveryRunOfBytesIsAligned) {
  ModelSpec spec = tiny_moe_spec();
  spec.hidden_dim = 36;
  spec.moe.expert_dim = 21;
  write(make_checkpoint(folder_.path() / "source", spec,
                        [](std::string_view) { return Format::kFp8Channel; }));
  const auto index = read_pack_index(output());
  ASSERT_TRUE(index) << index.error().text();
  for (const PackRegion& region : index->regions) {
    for (const PackTensor& tensor : region.tensors) {
      EXPECT_EQ(tensor.stored.data.offset % 64, 0U) << tensor.name;
      EXPECT_EQ(tensor.stored.scales.offset % 64, 0U) << tensor.name;
    }
  }
}

TEST_F(Pack, APackCanBePackedAgain) {
  const Checkpoint source = moe();
  write(source);
  const auto first = open_pack(output());
  ASSERT_TRUE(first);
  const auto again = write_pack(*first, {.output = folder_.path() / "again.pack"}, {}, {});
  ASSERT_TRUE(again) << again.error().text();
  EXPECT_EQ(read_file(folder_.path() / "again.pack" / "experts.bin"),
            read_file(output() / "experts.bin"));
  EXPECT_EQ(read_file(folder_.path() / "again.pack" / "config.json"),
            read_file(output() / "config.json"));
}

TEST_F(Pack, ExpertsAreEncodedInEveryFormatOnOffer) {
  const Checkpoint source = moe();
  for (const Format format :
       {Format::kBF16, Format::kQ8_0, Format::kQ4_0, Format::kMxfp4, Format::kNvfp4}) {
    SCOPED_TRACE(info(format).name);
    write(source, {.if_exists = IfExists::kReplace, .experts_format = format});
    const auto pack = open_pack(output());
    ASSERT_TRUE(pack) << pack.error().text();
    EXPECT_TRUE(verify_pack(*pack, {}, {}));
    for (const auto& [name, tensor] : source.tensors) {
      SCOPED_TRACE(name);
      const StoredTensor& packed = pack->tensors.at(name);
      if (name.find(".experts.") == std::string::npos || tensor.format == format) {
        EXPECT_EQ(bytes_of(*pack, packed.data), bytes_of(source, tensor.data));
        EXPECT_EQ(packed.format, tensor.format);
        continue;
      }
      ASSERT_EQ(packed.format, format);
      const std::vector<float> values = values_of(source, name);
      float amax = 0;
      for (const float value : values) amax = std::max(amax, std::fabs(value));
      if (format == Format::kNvfp4) {
        EXPECT_EQ(packed.scale, nvfp4_matrix_scale(amax));
      }

      const auto rows = static_cast<size_t>(tensor.rows);
      std::vector<std::byte> data(packed.data.bytes);
      std::vector<std::byte> scales(packed.scales.bytes);
      for (size_t r = 0; r < rows; ++r) {
        const size_t cols = values.size() / rows;
        ASSERT_TRUE(
            encode_row(format, std::span(values).subspan(r * cols, cols), packed.scale,
                       std::span(data).subspan(r * data.size() / rows, data.size() / rows),
                       std::span(scales).subspan(r * scales.size() / rows, scales.size() / rows)));
      }
      EXPECT_EQ(bytes_of(*pack, packed.data), data);
      EXPECT_EQ(bytes_of(*pack, packed.scales), scales);
    }
  }
}

TEST_F(Pack, ANonFiniteWeightEndsEncodingWithItsPlace) {
  const Checkpoint source = make_checkpoint(folder_.path() / "source", tiny_moe_spec(),
                                            [](std::string_view) { return Format::kF32; });
  std::string weights = read_file(source.files[0]);
  const Extent up = source.tensors.at("layers.1.experts.2.up").data;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(weights.data() + up.offset + (64 * 5 + 17) * sizeof nan, &nan, sizeof nan);
  write_file(source.files[0], weights);

  const auto summary =
      write_pack(source, {.output = output(), .experts_format = Format::kNvfp4}, {}, {});
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().text(), HasSubstr("layers.1.experts.2.up: row 5: column 17"));
  EXPECT_THAT(folder_.names(), ElementsAre("source"));
}

TEST_F(Pack, EveryDamagedByteIsFound) {
  write(moe());
  const auto pack = open_pack(output());
  ASSERT_TRUE(pack);
  const auto index = read_pack_index(output());
  for (const PackRegion& region : index->regions) {
    SCOPED_TRACE(region.name);
    const fs::path file = output() / index->files[region.extent.file].name;
    // The first byte, and the last, which is mostly padding.
    for (const uint64_t at :
         {region.extent.offset, region.extent.offset + region.extent.bytes - 1}) {
      damage(file, at);
      const auto verified = verify_pack(*pack, {}, {});
      ASSERT_FALSE(verified);
      EXPECT_EQ(verified.error().kind, ErrorKind::kInvalidData);
      EXPECT_THAT(verified.error().text(), HasSubstr(file.string()));
      EXPECT_THAT(verified.error().text(), HasSubstr(": " + region.name + " has checksum"));
      EXPECT_THAT(verified.error().text(), HasSubstr(fmt::format("{:016x}", region.xxh3)));
      damage(file, at);
    }
  }
  EXPECT_TRUE(verify_pack(*pack, {}, {}));
}

TEST_F(Pack, WrongSizesAreRefusedWhenOpened) {
  write(moe());
  const fs::path experts = output() / "experts.bin";
  const auto bytes = fs::file_size(experts);
  fs::resize_file(experts, bytes - 1);
  auto opened = open_pack(output());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), HasSubstr(fmt::format("{} has {} bytes, expected {}",
                                                           experts.string(), bytes - 1, bytes)));
  fs::resize_file(experts, bytes + 1);
  EXPECT_FALSE(open_pack(output()));
  fs::remove(experts);
  opened = open_pack(output());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().kind, ErrorKind::kNotFound);
}

TEST_F(Pack, DamagedSmallFilesAreRefusedWhenOpened) {
  write(moe());
  for (const char* const name : {"tokenizer.json", "chat_template.jinja", "config.json"}) {
    damage(output() / name, 3);
    const auto opened = open_pack(output());
    ASSERT_FALSE(opened) << name;
    EXPECT_THAT(opened.error().text(), HasSubstr(name));
    damage(output() / name, 3);
  }
  const std::string index = read_file(output() / "penstock.json");
  for (size_t at = 0; at < index.size(); at += 101) {
    damage(output() / "penstock.json", at);
    EXPECT_FALSE(open_pack(output())) << "damaged at " << at;
    write_file(output() / "penstock.json", index);
  }
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{100}, index.size() / 2, index.size() - 1}) {
    write_file(output() / "penstock.json", std::string_view(index).substr(0, bytes));
    EXPECT_FALSE(open_pack(output())) << "cut to " << bytes;
  }
}

TEST_F(Pack, AMissingTensorIsRefusedWhenOpened) {
  Checkpoint source = moe();
  source.tensors.erase("layers.1.v");
  write(source);
  const auto opened = open_pack(output());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), HasSubstr("layers.1.v"));
}

TEST_F(Pack, ActOrderGroupsOutOfRangeAreRefusedWhenOpened) {
  write(moe());
  const auto pack = open_pack(output());
  ASSERT_TRUE(pack);
  const Extent groups = pack->tensors.at("layers.1.q").groups;
  ASSERT_EQ(groups.bytes, 64 * sizeof(int32_t));
  damage(pack->files[groups.file],
         groups.offset + 4 * 63);  // 0x10: groups 0 and 1 become 16 and 17
  const auto opened = open_pack(output());
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().text(), HasSubstr("layers.1.q puts a column in group 1"));
}

// Every golden model: GGUF's stacked experts come apart, the rest is moved as it is.
TEST_F(Pack, GoldenModelsKeepTheirBytes) {
  int n_models = 0;
  for (const char* const kind : {"gguf", "models", "quantized"}) {
    for (const auto& entry :
         fs::directory_iterator(fs::path(PENSTOCK_SOURCE_DIR "/tests/golden") / kind)) {
      if (!entry.is_directory() && entry.path().extension() != ".gguf") continue;
      SCOPED_TRACE(entry.path().filename().string());
      const auto source = open_checkpoint(entry.path());
      ASSERT_TRUE(source) << source.error().text();
      write(*source, {.if_exists = IfExists::kReplace});
      const auto pack = open_checkpoint(output());
      ASSERT_TRUE(pack) << pack.error().text();
      EXPECT_EQ(pack->kind, SourceKind::kPack);
      EXPECT_EQ(pack->spec, source->spec);
      EXPECT_EQ(pack->tokenizer.json, source->tokenizer.json);
      EXPECT_EQ(pack->tokenizer.ggml, source->tokenizer.ggml);
      EXPECT_EQ(pack->generation, source->generation);
      ASSERT_EQ(pack->tensors.size(), source->tensors.size());
      for (const auto& [name, tensor] : source->tensors) {
        const StoredTensor& packed = pack->tensors.at(name);
        EXPECT_EQ(bytes_of(*pack, packed.data), bytes_of(*source, tensor.data)) << name;
        EXPECT_EQ(bytes_of(*pack, packed.scales), bytes_of(*source, tensor.scales)) << name;
      }
      EXPECT_TRUE(verify_pack(*pack, {}, {}));
      ++n_models;
    }
  }
  EXPECT_GE(n_models, 22);
}

TEST_F(Pack, AnExistingOutputIsKeptUnlessReplaced) {
  const Checkpoint source = moe();
  write(source);
  const auto before = fs::last_write_time(output() / "penstock.json");
  const auto refused = write_pack(source, {.output = output()}, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().text(), HasSubstr("--force"));
  EXPECT_EQ(fs::last_write_time(output() / "penstock.json"), before);

  write_file(output() / "extra", "x");
  write(source, {.if_exists = IfExists::kReplace});
  EXPECT_FALSE(fs::exists(output() / "extra"));
  EXPECT_TRUE(open_pack(output()));
  EXPECT_THAT(folder_.names(), ElementsAre("out.pack", "source"));
}

TEST_F(Pack, WhatIsNoPackIsNeverReplaced) {
  const Checkpoint source = moe();
  fs::create_directories(output());
  write(source);  // an empty folder may be filled

  const fs::path home = folder_.path() / "home";
  fs::create_directories(home);
  write_file(home / "thesis.tex", "years");
  for (const IfExists if_exists : {IfExists::kRefuse, IfExists::kReplace}) {
    const auto refused = write_pack(source, {.output = home, .if_exists = if_exists}, {}, {});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text(), HasSubstr("not a pack"));
  }
  EXPECT_EQ(read_file(home / "thesis.tex"), "years");
  EXPECT_EQ(write_pack(source, {.output = folder_.path() / "no" / "where"}, {}, {}).error().kind,
            ErrorKind::kNotFound);
}

TEST_F(Pack, AStopLeavesNothing) {
  const Checkpoint source = moe();
  for (int stop_at = 1; stop_at <= 12; ++stop_at) {
    std::stop_source stop;
    int n_updates = 0;
    const ProgressFn progress = [&](const ProgressUpdate& update) {
      EXPECT_LE(update.done, update.total);
      if (++n_updates == stop_at) stop.request_stop();
    };
    const auto stopped = write_pack(source, {.output = output()}, progress, stop.get_token());
    ASSERT_FALSE(stopped) << stop_at;
    EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
    EXPECT_THAT(folder_.names(), ElementsAre("source"));
  }
}

TEST_F(Pack, ProgressCountsEveryByteOnce) {
  uint64_t last = 0;
  uint64_t total = 0;
  const auto summary = write_pack(moe(), {.output = output()},
                                  [&](const ProgressUpdate& update) {
                                    EXPECT_GE(update.done, last);
                                    last = update.done;
                                    total = update.total;
                                  },
                                  {});
  ASSERT_TRUE(summary);
  EXPECT_EQ(last, total);
  EXPECT_EQ(total, summary->bytes);
  EXPECT_EQ(total, fs::file_size(output() / "dense.bin") + fs::file_size(output() / "experts.bin"));
}

TEST_F(Pack, AShortSourceEndsPackingAndLeavesNothing) {
  const Checkpoint source = moe();
  for (const bool encoded : {false, true}) {
    fs::resize_file(source.files[0], fs::file_size(source.files[0]) - 1);
    PackOptions options{.output = output()};
    if (encoded) options.experts_format = Format::kQ4_0;
    const auto summary = write_pack(source, options, {}, {});
    ASSERT_FALSE(summary);
    EXPECT_THAT(summary.error().text(), HasSubstr(source.files[0].string()));
    EXPECT_THAT(folder_.names(), ElementsAre("source"));
  }
}

// A file size limit makes the kernel refuse a write as a full disk does, at the first file, the
// second, and a small one.
TEST_F(Pack, ARefusedWriteLeavesNothing) {
  const Checkpoint source = moe();
  const auto on_signal = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit old = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old), 0);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{10}, rlim_t{5000}, rlim_t{130'000}}) {
    const struct rlimit small = {.rlim_cur = limit, .rlim_max = old.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto summary = write_pack(source, {.output = output()}, {}, {});
    ::setrlimit(RLIMIT_FSIZE, &old);
    ASSERT_FALSE(summary) << limit;
    EXPECT_THAT(summary.error().text(), HasSubstr("cannot write"));
    EXPECT_THAT(folder_.names(), ElementsAre("source"));
  }
  std::signal(SIGXFSZ, on_signal);
}

TEST_F(Pack, AFullDiskIsRefusedBeforeTheStart) {
  Checkpoint source = moe();
  StoredTensor& head = source.tensors.at("head");
  head.rows = int64_t{1} << 50;  // 128 PiB; its bytes are never looked at
  head.data.bytes = static_cast<uint64_t>(head.rows) * 64 * 2;
  const auto summary = write_pack(source, {.output = output()}, {}, {});
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().kind, ErrorKind::kExhausted);
  EXPECT_THAT(summary.error().text(), HasSubstr("the pack needs 1"));
  EXPECT_THAT(summary.error().text(), HasSubstr(" free"));
  EXPECT_THAT(folder_.names(), ElementsAre("source"));
}

TEST_F(Pack, FlagsThatDoNotFitTheModelAreRefused) {
  const Checkpoint dense = make_checkpoint(folder_.path() / "dense", tiny_dense_spec(),
                                           [](std::string_view) { return Format::kBF16; });
  auto refused = write_pack(dense, {.output = output(), .experts_format = Format::kQ8_0}, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().text(), HasSubstr("--upcycle"));

  const Checkpoint source = moe();
  refused = write_pack(source, {.output = output(), .experts_format = Format::kQ4_K}, {}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(refused.error().text(), HasSubstr("q4_k"));
  EXPECT_THAT(folder_.names(), ElementsAre("dense", "source"));
}

// A child that writes a pack and stops in its n-th progress report until it is killed.
class Writer {
 public:
  Writer(const Checkpoint& source, const PackOptions& options, int stop_at) {
    int ready[2] = {};
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      int n_updates = 0;
      const auto summary = write_pack(source, options,
                                      [&](const ProgressUpdate&) {
                                        if (++n_updates < stop_at) return;
                                        if (::write(ready[1], "x", 1) != 1) ::_exit(1);
                                        for (;;) ::pause();
                                      },
                                      {});
      ::_exit(summary ? 0 : 1);  // closes the pipe, so the parent's read ends
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the writer ended by itself";
    ::close(ready[0]);
  }
  ~Writer() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

TEST_F(Pack, WhatAKilledWriterLeftIsRemovedByTheNext) {
  const Checkpoint source = moe();
  for (const int stop_at : {1, 5, 20}) {
    SCOPED_TRACE(stop_at);
    Writer(source, {.output = output()}, stop_at).kill();
    EXPECT_EQ(folder_.names().size(), 2U) << "a partial folder beside the source";
    EXPECT_FALSE(fs::exists(output())) << "nothing under the final name";

    const PackSummary summary = write(source);
    ASSERT_EQ(summary.removed.size(), 1U);
    EXPECT_THAT(summary.removed[0].string(), HasSubstr("out.pack.partial-"));
    EXPECT_THAT(folder_.names(), ElementsAre("out.pack", "source"));
    EXPECT_TRUE(open_pack(output()));
    fs::remove_all(output());
  }
}

TEST_F(Pack, ALiveWritersFolderIsLeftAlone) {
  const Checkpoint source = moe();
  Writer other(source, {.output = output()}, /*stop_at=*/3);
  const PackSummary summary = write(source);
  EXPECT_TRUE(summary.removed.empty());
  EXPECT_EQ(folder_.names().size(), 3U) << "output, source, and the other writer's folder";
  other.kill();
  EXPECT_EQ(write(source, {.if_exists = IfExists::kReplace}).removed.size(), 1U);
  EXPECT_THAT(folder_.names(), ElementsAre("out.pack", "source"));
}

TEST_F(Pack, OnlyWhatWritersLeaveIsRemoved) {
  const Checkpoint source = moe();
  // A replaced pack whose removal was cut short; a folder that was never locked; and three whose
  // names only look alike.
  for (const char* const name : {"out.pack.partial-0123abcd", "out.pack.partial-01234567"}) {
    fs::create_directories(folder_.path() / name);
  }
  write_file(folder_.path() / "out.pack.partial-0123abcd" / "dense.bin", "old");
  for (const char* const name :
       {"out.pack.partial-", "out.pack.partial-mine", "my.out.pack.partial-01234567"}) {
    fs::create_directories(folder_.path() / name);
    write_file(folder_.path() / name / "file", "mine");
  }
  EXPECT_EQ(write(source).removed.size(), 2U);
  EXPECT_THAT(folder_.names(), ElementsAre("my.out.pack.partial-01234567", "out.pack",
                                           "out.pack.partial-", "out.pack.partial-mine", "source"));
}

TEST_F(Pack, VerifyingCanBeStopped) {
  write(moe());
  const auto pack = open_pack(output());
  ASSERT_TRUE(pack);
  std::stop_source stop;
  int n_updates = 0;
  const auto verified = verify_pack(
      *pack,
      [&](const ProgressUpdate& update) {
        EXPECT_EQ(update.stage, "verifying");
        if (++n_updates == 2) stop.request_stop();
      },
      stop.get_token());
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().kind, ErrorKind::kCancelled);
  EXPECT_EQ(n_updates, 2);
}

}  // namespace
}  // namespace penstock
