// Which experts a model's routers chose, step by step and layer by layer: what `penstock bench
// --record-routing` writes and `penstock plan --replay` runs cache policies over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace penstock {

class RoutingRecord {
 public:
  struct Shape {
    std::string model = {};
    int n_layers = 0;   // dense ones too
    int n_experts = 0;  // of a layer that has some
    int top_k = 0;

    bool operator==(const Shape&) const = default;
  };

  struct Step {
    int64_t n_prompt = 0;     // tokens of prompts
    int64_t n_generated = 0;  // tokens that were generated
    size_t first_visit = 0;
    size_t n_visits = 0;

    bool is_prefill() const { return n_prompt > 0; }
    bool operator==(const Step&) const = default;
  };

  // What all tokens of a step want of one layer.
  struct Visit {
    uint16_t layer = 0;
    uint32_t n_experts = 0;
    size_t first_expert = 0;

    bool operator==(const Visit&) const = default;
  };

  explicit RoutingRecord(Shape shape) : shape_(std::move(shape)) {}

  // Bytes from outside: JSON Lines, as docs/formats.md has it. An error says in which line.
  static Result<RoutingRecord> parse(std::string_view text);
  static Result<RoutingRecord> read(const std::filesystem::path& path);
  std::string text() const;

  void begin_step(int64_t n_prompt, int64_t n_generated);
  // Of the step that began last, layers ascending; its experts ascending, at least one.
  void add_visit(int layer, std::span<const int> experts);

  const Shape& shape() const { return shape_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<const Visit> visits() const { return visits_; }
  std::span<const Visit> visits(const Step& step) const {
    return visits().subspan(step.first_visit, step.n_visits);
  }
  std::span<const int> experts(const Visit& visit) const {
    return std::span(experts_).subspan(visit.first_expert, visit.n_experts);
  }
  // Of all visits together.
  size_t n_uses() const { return experts_.size(); }
  // Of layers that were visited.
  int64_t n_experts() const;

  bool operator==(const RoutingRecord&) const = default;

 private:
  Shape shape_;
  std::vector<Step> steps_;
  std::vector<Visit> visits_;
  std::vector<int> experts_;
};

}  // namespace penstock
