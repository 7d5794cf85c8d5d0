// <function=NAME><parameter=P>value</parameter></function>: how Qwen3-Coder models write a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/answer/call_reader.h"
#include "engine/answer/declared_tools.h"

namespace penstock {

// Values are plain text between optional line ends; the tool's schema says what they mean. As
// nothing in them is escaped, a closing tag only counts where another tag that belongs there
// follows, or the answer ends: a value that itself ends so cannot be told apart. `tools` outlives
// this.
class XmlCall : public CallReader {
 public:
  // `opened`: "<function=" has been read already.
  XmlCall(const DeclaredTools& tools, bool opened)
      : tools_(tools), state_(opened ? State::kName : State::kLead) {}

  Step push(char byte, DeltaCollector& out) override;
  void finish(DeltaCollector& out) override;

 private:
  enum class State : uint8_t { kLead, kName, kFirstTag, kParameterName, kValueBegin, kValue };

  Step push_lead(char byte);
  Step push_name(char byte);
  Step push_first_tag(char byte, DeltaCollector& out);
  Step push_parameter_name(char byte, DeltaCollector& out);
  Step push_value(char byte, DeltaCollector& out);
  void write_value(char byte, DeltaCollector& out);
  void end_value(DeltaCollector& out);
  Step end_call(DeltaCollector& out);

  const DeclaredTools& tools_;
  const DeclaredTool* tool_ = nullptr;
  State state_;
  std::string token_;      // a tag, as far as it has come
  std::string name_;       // the tool's
  std::string parameter_;  // its name
  size_t n_parameters_ = 0;
  ValueTypes types_;
  std::string value_;  // held until it is whole, but where it can only be text
  std::string tail_;   // of the value, or its closing tags
};

}  // namespace penstock
