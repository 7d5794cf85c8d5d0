// JSON as models write it, byte by byte, to JSON as it should be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

// Adds `byte` of a text to the inside of a JSON string.
void append_escaped(std::string& json, char byte);
std::string json_quoted(std::string_view text);

// By JSON's grammar (RFC 8259), and finite: "007" is none, nor is "1e400".
bool is_json_number(const std::string& text);

// Takes one value and writes it without white space between its tokens. What has only one sensible
// meaning is mended: control characters and wrong escapes in strings, a comma before a closing
// bracket, True, False and None, and any other bare word, which becomes a string. Writes as it
// reads; held back is at most one bare word. Thread-compatible.
class JsonMender {
 public:
  static constexpr size_t kMaxDepth = 64;

  enum class Step : uint8_t {
    kMore,
    kDone,        // `byte` was the value's last
    kDoneBefore,  // the value, a bare word, ended before `byte`
    kBroken,      // no JSON. All there was has been written, as it was; the caller's turn
  };
  // After anything but kMore there is nothing more to push.
  Step push(char byte, std::string& out);
  // No more comes, though the value has not ended: what was held back.
  void flush(std::string& out);

 private:
  enum class State : uint8_t {
    kValue,       // there must be one
    kElement,     // or the end of the array
    kKey,         // or the end of the object
    kColon,       // after a key
    kAfterValue,  // inside an array or object
    kString,
    kWord,
  };

  Step begin_value(char byte, std::string& out);
  Step end_value();
  Step close(char byte, std::string& out);
  Step push_after_value(char byte, std::string& out);
  Step push_string(char byte, std::string& out);
  Step push_escape(char byte, std::string& out);
  Step push_word(char byte, std::string& out);
  Step broken(char byte, std::string& out);
  void write_comma(std::string& out);

  State state_ = State::kValue;
  std::vector<char> open_;  // '{' and '['
  bool comma_ = false;      // read, and written when something follows it
  bool is_key_ = false;     // the string
  std::string escape_;      // the beginning of one: \, \u12
  std::string word_;
};

}  // namespace penstock
