// read[ARGS]{...}: how newer Mistral models write a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/answer/call_reader.h"
#include "engine/answer/declared_tools.h"

namespace penstock {

// Between the name and the arguments there may be [CALL_ID], an id, and [ARGS], which some models
// leave out. `tools` outlives this.
class NamedCall : public CallReader {
 public:
  explicit NamedCall(const DeclaredTools& tools) : tools_(tools), arguments_(/*terminator=*/{}) {}

  Step push(char byte, DeltaCollector& out) override;
  void finish(DeltaCollector& out) override { arguments_.finish(out); }

 private:
  enum class State : uint8_t { kName, kMark, kCallId, kObject, kArguments };

  Step push_name(char byte, DeltaCollector& out);
  Step push_mark(char byte);
  Step push_object(char byte, DeltaCollector& out);
  Step push_arguments(char byte, DeltaCollector& out);

  const DeclaredTools& tools_;
  State state_ = State::kName;
  std::string name_;
  std::string mark_;
  ArgumentsReader arguments_;
};

}  // namespace penstock
