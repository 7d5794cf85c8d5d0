// {"name": ..., "arguments": {...}}: how Hermes, Qwen, Llama 3 and Mistral models write a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/answer/call_reader.h"
#include "engine/answer/declared_tools.h"

namespace penstock {

// The members come in any order; arguments may also be named "parameters", be absent or null, or be
// the text of an object. `tools` outlives this.
class JsonCall : public CallReader {
 public:
  JsonCall(const DeclaredTools& tools, std::string_view terminator)
      : tools_(tools), arguments_(terminator) {}

  Step push(char byte, DeltaCollector& out) override;
  void finish(DeltaCollector& out) override;

 private:
  enum class State : uint8_t {
    kObject,
    kKeyOrEnd,
    kKey,
    kColon,
    kValue,
    kName,
    kArguments,
    kEarlyArguments,  // before the name, or no object
    kOtherValue,
    kAfterMember,
  };

  Step push_key(char byte);
  Step begin_value(char byte, DeltaCollector& out);
  Step push_name(char byte, DeltaCollector& out);
  Step push_arguments(char byte, DeltaCollector& out);
  Step push_early_arguments(char byte, DeltaCollector& out);
  Step push_other_value(char byte, DeltaCollector& out);
  Step push_after_member(char byte, DeltaCollector& out);
  Step end_object(DeltaCollector& out);
  Step unexpected(DeltaCollector& out) const;
  void begin_with_early_arguments(DeltaCollector& out);

  const DeclaredTools& tools_;
  State state_ = State::kObject;
  std::string key_;
  std::string name_;
  bool named_ = false;  // name_ is whole, and declared
  ArgumentsReader arguments_;
  JsonMender mender_;  // of early arguments and of other values
  std::string early_arguments_;
};

}  // namespace penstock
