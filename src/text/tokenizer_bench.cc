// Encoding speed on one core in MB/s of UTF-8: SmolLM2's 49,152 tokens, split as several models do,
// over English and code (this project's design page and sources) and over 66 texts in many scripts.
// bench/tokenizer_vs_huggingface.py runs this beside the `tokenizers` package and compares the
// number of tokens.
#include <benchmark/benchmark.h>

#include <fstream>
#include <random>
#include <string>

#include "os/environment.h"
#include "text/tokenizer_testing.h"

namespace penstock {
namespace {

std::string english_and_code() {
  std::string text = read_file(PENSTOCK_SOURCE_DIR "/docs/design.md");
  for (const char* name :
       {"bpe.cc", "decoder.cc", "pretokenizer.cc", "tokenizer.cc", "tokenizer_gguf.cc"}) {
    text += read_file(std::string(PENSTOCK_SOURCE_DIR "/src/text/") + name);
  }
  return text;
}

std::string many_scripts() {
  std::string text;
  const Json corpus = read_json(kGoldenTokenizers + "corpus.json");
  for (const auto& [name, part] : corpus.items()) {
    text += part.get<std::string>() + "\n";
  }
  return text;
}

// Words that are no words and do not come twice: every piece is merged, none is in the cache.
std::string new_words() {
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 1'000'000) {
    text += ' ';
    for (size_t n = 4 + random() % 8; n > 0; --n) text += static_cast<char>('a' + random() % 26);
  }
  return text;
}

Tokenizer tokenizer_with(const std::string& pre) {
  GgufVocabulary vocabulary = smollm2_vocabulary();
  vocabulary.pre = pre;
  vocabulary.add_bos = false;
  return expect_value(Tokenizer::from_vocabulary(vocabulary));
}

// Where PENSTOCK_BENCH_TEXTS names a folder, the texts are left there for whoever compares.
void leave_text(const std::string& name, const std::string& text) {
  const std::string folder(environment_variable("PENSTOCK_BENCH_TEXTS"));
  if (folder.empty()) return;
  std::ofstream(folder + "/" + name + ".txt", std::ios::binary) << text;
}

using MakeText = std::string (*)();

void encode(benchmark::State& state, const std::string& pre, const std::string& name,
            MakeText make_text) {
  const std::string text = make_text();
  leave_text(name, text);
  const Tokenizer tokenizer = tokenizer_with(pre);
  size_t n_tokens = 0;
  for (auto _ : state) {
    const auto ids = expect_value(tokenizer.encode(text));
    n_tokens = ids.size();
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
  state.counters["tokens"] = static_cast<double>(n_tokens);
  state.counters["bytes"] = static_cast<double>(text.size());
}

// encode/STYLE/TEXT for each of both.
const bool kRegistered = [] {
  const std::pair<std::string, std::string> styles[] = {{"smollm", "smollm"},
                                                        {"qwen2", "qwen2"},
                                                        {"llama3", "llama-bpe"},
                                                        {"o200k", "gpt-4o"},
                                                        {"deepseek", "deepseek-v3"}};
  const std::pair<std::string, MakeText> texts[] = {
      {"english", english_and_code}, {"scripts", many_scripts}, {"new_words", new_words}};
  for (const auto& [style, pre] : styles) {
    for (const auto& [name, make_text] : texts) {
      benchmark::RegisterBenchmark(fmt::format("encode/{}/{}", style, name).c_str(), encode, pre,
                                   name, make_text);
    }
  }
  return true;
}();

void one_letter(benchmark::State& state) {
  const Tokenizer tokenizer = tokenizer_with("qwen2");
  const std::string text(static_cast<size_t>(state.range(0)), 'a');
  for (auto _ : state) benchmark::DoNotOptimize(expect_value(tokenizer.encode(text)).size());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * text.size()));
}
BENCHMARK(one_letter)->Arg(1 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace penstock
