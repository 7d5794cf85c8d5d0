#include "checkpoint/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/utf8.h"
#include "checkpoint/json_text.h"

namespace penstock {
namespace {

constexpr uint64_t kMaxCount = uint64_t{1} << 20;  // of keys, and of tensors
// Of array elements in all of a header: each becomes a JSON value of 16 bytes or more.
constexpr uint64_t kMaxElements = uint64_t{1} << 24;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint64_t kDefaultAlignment = 32;
// The fewest bytes one key or one tensor can take, to bound their counts before anything is kept.
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 8 + 4 + 8;

constexpr std::array kTypes = std::to_array<GgmlType>({
    {0, "f32", 1, 4, Format::kF32},
    {1, "f16", 1, 2, Format::kF16},
    {2, "q4_0", 32, 18, Format::kQ4_0},
    {3, "q4_1", 32, 20, Format::kQ4_1},
    {6, "q5_0", 32, 22, Format::kQ5_0},
    {7, "q5_1", 32, 24, Format::kQ5_1},
    {8, "q8_0", 32, 34, Format::kQ8_0},
    {10, "q2_k", 256, 84, Format::kQ2_K},
    {11, "q3_k", 256, 110, Format::kQ3_K},
    {12, "q4_k", 256, 144, Format::kQ4_K},
    {13, "q5_k", 256, 176, Format::kQ5_K},
    {14, "q6_k", 256, 210, Format::kQ6_K},
    {16, "iq2_xxs", 256, 66, {}},
    {17, "iq2_xs", 256, 74, {}},
    {18, "iq3_xxs", 256, 98, {}},
    {19, "iq1_s", 256, 50, {}},
    {20, "iq4_nl", 32, 18, Format::kIQ4_NL},
    {21, "iq3_s", 256, 110, {}},
    {22, "iq2_s", 256, 82, {}},
    {23, "iq4_xs", 256, 136, Format::kIQ4_XS},
    {24, "i8", 1, 1, {}},
    {25, "i16", 1, 2, {}},
    {26, "i32", 1, 4, {}},
    {27, "i64", 1, 8, {}},
    {28, "f64", 1, 8, {}},
    {29, "iq1_m", 256, 56, {}},
    {30, "bf16", 1, 2, Format::kBF16},
    {34, "tq1_0", 256, 54, {}},
    {35, "tq2_0", 256, 66, {}},
    {39, "mxfp4", 32, 17, Format::kMxfp4Block},
    {40, "nvfp4", 64, 36, Format::kNvfp4Block},
    {41, "q1_0", 128, 18, {}},
});

// Takes little-endian numbers and strings off the front of the file.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t at() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  // `what` names the field in errors.
  template <class T>
  Result<T> number(std::string_view what) {
    if (left() < sizeof(T)) return ends_inside(what, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  Result<std::string> string(std::string_view what, uint64_t max_bytes) {
    PENSTOCK_ASSIGN(const uint64_t length, number<uint64_t>(what));
    if (length > max_bytes || length > left()) {
      return fail(ErrorKind::kInvalidData, "{} claims {} bytes, expected at most {}", what, length,
                  std::min(max_bytes, left()));
    }
    std::string text(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    if (!is_utf8(text)) return fail(ErrorKind::kInvalidData, "{} is not UTF-8", what);
    at_ += length;
    return text;
  }

 private:
  std::unexpected<Error> ends_inside(std::string_view what, size_t wanted) const {
    return fail(ErrorKind::kInvalidData,
                "the file ends inside {}: {} bytes wanted at offset {}, {} there", what, wanted,
                at_, left());
  }

  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

template <class T>
Result<Json> read_json(ByteReader& reader, std::string_view what) {
  PENSTOCK_ASSIGN(const T value, reader.number<T>(what));
  return Json(value);
}

// Metadata value types, by their ids in the file.
constexpr uint32_t kBoolType = 7;
constexpr uint32_t kStringType = 8;
constexpr uint32_t kArrayType = 9;

Result<Json> read_scalar(ByteReader& reader, uint32_t type, std::string_view what) {
  switch (type) {
    case 0:
      return read_json<uint8_t>(reader, what);
    case 1:
      return read_json<int8_t>(reader, what);
    case 2:
      return read_json<uint16_t>(reader, what);
    case 3:
      return read_json<int16_t>(reader, what);
    case 4:
      return read_json<uint32_t>(reader, what);
    case 5:
      return read_json<int32_t>(reader, what);
    case 6:
      return read_json<float>(reader, what);
    case kBoolType: {
      PENSTOCK_ASSIGN(const auto byte, reader.number<uint8_t>(what));
      if (byte > 1) {
        return fail(ErrorKind::kInvalidData, "{} is {}, expected a truth value of 0 or 1", what,
                    byte);
      }
      return Json(byte == 1);
    }
    case kStringType: {
      PENSTOCK_ASSIGN(std::string text, reader.string(what, reader.left()));
      return Json(std::move(text));
    }
    case 10:
      return read_json<uint64_t>(reader, what);
    case 11:
      return read_json<int64_t>(reader, what);
    case 12:
      return read_json<double>(reader, what);
    default:
      return fail(ErrorKind::kInvalidData, "{} has value type {}, expected 0 to 12", what, type);
  }
}

class HeaderReader {
 public:
  explicit HeaderReader(std::span<const std::byte> file) : file_(file), reader_(file) {}

  Result<GgufHeader> read() {
    PENSTOCK_TRY(read_magic());
    PENSTOCK_ASSIGN(const uint64_t n_tensors, read_count("the count of tensors"));
    PENSTOCK_ASSIGN(const uint64_t n_keys, read_count("the count of metadata keys"));
    PENSTOCK_TRY(check_count("metadata keys", n_keys, kMinKeyBytes));
    for (uint64_t i = 0; i < n_keys; ++i) PENSTOCK_TRY(read_key(i));
    PENSTOCK_ASSIGN(alignment_, read_alignment());
    PENSTOCK_TRY(check_count("tensors", n_tensors, kMinTensorBytes));
    for (uint64_t i = 0; i < n_tensors; ++i) PENSTOCK_TRY(read_tensor(i));
    PENSTOCK_TRY(place_tensors());
    return std::move(header_);
  }

 private:
  Result<void> read_magic() {
    PENSTOCK_ASSIGN(const auto magic, (reader_.number<std::array<char, 4>>("the magic")));
    if (std::string_view(magic.data(), 4) != "GGUF") {
      return fail(ErrorKind::kInvalidData, "this is no GGUF file: it does not begin with \"GGUF\"");
    }
    PENSTOCK_ASSIGN(const auto version, reader_.number<uint32_t>("the version"));
    if (version == 2 || version == 3) return {};
    if (version != 0 && (version & 0xFFFF) == 0) {
      return fail(ErrorKind::kUnsupported,
                  "this GGUF file is big-endian, expected little-endian numbers");
    }
    return fail(ErrorKind::kUnsupported, "GGUF version is {}, expected 2 or 3", version);
  }

  Result<uint64_t> read_count(std::string_view what) {
    PENSTOCK_ASSIGN(const auto count, reader_.number<uint64_t>(what));
    if (count <= kMaxCount) return count;
    return fail(ErrorKind::kInvalidData, "{} is {}, expected at most {}", what, count, kMaxCount);
  }

  // More things than the rest of the file has room for are refused before the first is read.
  Result<void> check_count(std::string_view what, uint64_t count, uint64_t min_bytes) const {
    if (count <= reader_.left() / min_bytes) return {};
    return fail(ErrorKind::kInvalidData, "the header claims {} {}, but only {} bytes follow", count,
                what, reader_.left());
  }

  Result<void> read_key(uint64_t index) {
    PENSTOCK_ASSIGN(std::string key,
                    reader_.string(fmt::format("metadata key {}", index), kMaxNameBytes));
    const std::string what = fmt::format("metadata \"{}\"", key);
    PENSTOCK_ASSIGN(const auto type, reader_.number<uint32_t>(what));
    PENSTOCK_ASSIGN(Json value,
                    type == kArrayType ? read_array(what) : read_scalar(reader_, type, what));
    if (header_.metadata.contains(key)) {
      return fail(ErrorKind::kInvalidData, "{} occurs twice", what);
    }
    header_.metadata.emplace(std::move(key), std::move(value));
    return {};
  }

  Result<Json> read_array(const std::string& what) {
    PENSTOCK_ASSIGN(const auto type, reader_.number<uint32_t>(what));
    if (type == kArrayType) {
      return fail(ErrorKind::kUnsupported, "{} is an array of arrays, expected plain elements",
                  what);
    }
    PENSTOCK_ASSIGN(const auto count, reader_.number<uint64_t>(what));
    const uint64_t most = std::min(reader_.left(), kMaxElements - n_elements_);
    if (count > most) {
      return fail(ErrorKind::kInvalidData, "{} claims {} elements, expected at most {}", what,
                  count, most);
    }
    n_elements_ += count;
    Json array = Json::array();
    for (uint64_t i = 0; i < count; ++i) {
      PENSTOCK_ASSIGN(Json element, read_scalar(reader_, type, what));
      array.push_back(std::move(element));
    }
    return array;
  }

  Result<uint64_t> read_alignment() const {
    const auto found = header_.metadata.find("general.alignment");
    if (found == header_.metadata.end()) return kDefaultAlignment;
    if (!found->is_number_unsigned() || !std::has_single_bit(found->get<uint64_t>())) {
      return fail(ErrorKind::kInvalidData,
                  "metadata \"general.alignment\" is {}, expected a power of two", brief(*found));
    }
    return found->get<uint64_t>();
  }

  Result<void> read_tensor(uint64_t index) {
    GgufTensor tensor;
    PENSTOCK_ASSIGN(tensor.name,
                    reader_.string(fmt::format("the name of tensor {}", index), kMaxNameBytes));
    const std::string what = fmt::format("tensor {}", tensor.name);
    PENSTOCK_ASSIGN(const auto n_dims, reader_.number<uint32_t>(what));
    if (n_dims < 1 || n_dims > 4) {
      return fail(ErrorKind::kInvalidData, "{} has {} dimensions, expected 1 to 4", what, n_dims);
    }
    for (uint32_t i = 0; i < n_dims; ++i) {
      PENSTOCK_ASSIGN(const auto dim, reader_.number<uint64_t>(what));
      tensor.dims.push_back(dim);
    }
    PENSTOCK_ASSIGN(const auto type, reader_.number<uint32_t>(what));
    tensor.type = find_ggml_type(type);
    if (tensor.type == nullptr) {
      return fail(ErrorKind::kUnsupported, "{} has type {}, which is no type of ggml", what, type);
    }
    PENSTOCK_ASSIGN(tensor.bytes, size_of(tensor));
    PENSTOCK_ASSIGN(tensor.offset, reader_.number<uint64_t>(what));  // from the start of the data
    header_.tensors.push_back(std::move(tensor));
    return {};
  }

  static Result<uint64_t> size_of(const GgufTensor& tensor) {
    const GgmlType& type = *tensor.type;
    if (tensor.dims[0] % type.block != 0) {
      return fail(ErrorKind::kInvalidData,
                  "tensor {} has rows of {} elements, expected a multiple of {} for type {}",
                  tensor.name, tensor.dims[0], type.block, type.name);
    }
    uint64_t bytes = tensor.dims[0] / type.block;
    bool fits = !__builtin_mul_overflow(bytes, uint64_t{type.bytes}, &bytes);
    for (size_t i = 1; i < tensor.dims.size(); ++i) {
      fits = fits && !__builtin_mul_overflow(bytes, tensor.dims[i], &bytes);
    }
    if (fits) return bytes;
    return fail(ErrorKind::kInvalidData, "tensor {} of shape [{}] is larger than any file",
                tensor.name, fmt::join(tensor.dims, ", "));
  }

  // Turns offsets from the start of the data into offsets from the start of the file.
  Result<void> place_tensors() {
    const uint64_t data = (reader_.at() + alignment_ - 1) / alignment_ * alignment_;
    for (GgufTensor& tensor : header_.tensors) {
      if (tensor.offset % alignment_ != 0) {
        return fail(ErrorKind::kInvalidData, "tensor {} is at offset {}, expected a multiple of {}",
                    tensor.name, tensor.offset, alignment_);
      }
      uint64_t end = 0;
      const uint64_t relative = tensor.offset;
      if (__builtin_add_overflow(data, relative, &tensor.offset) ||
          __builtin_add_overflow(tensor.offset, tensor.bytes, &end) || end > file_.size()) {
        return fail(
            ErrorKind::kInvalidData,
            "tensor {} has {} bytes at offset {} of the data, but the file's {} bytes leave "
            "room for {}",
            tensor.name, tensor.bytes, relative, file_.size(),
            file_.size() > data ? file_.size() - data : 0);
      }
    }
    return check_apart();
  }

  Result<void> check_apart() const {
    std::vector<const GgufTensor*> by_name;
    std::vector<const GgufTensor*> by_offset;
    for (const GgufTensor& tensor : header_.tensors) {
      by_name.push_back(&tensor);
      if (tensor.bytes > 0) by_offset.push_back(&tensor);
    }
    std::ranges::sort(by_name, {}, [](const GgufTensor* t) -> std::string_view { return t->name; });
    for (size_t i = 1; i < by_name.size(); ++i) {
      if (by_name[i]->name == by_name[i - 1]->name) {
        return fail(ErrorKind::kInvalidData, "tensor {} occurs twice", by_name[i]->name);
      }
    }
    std::ranges::sort(by_offset, {}, [](const GgufTensor* t) { return t->offset; });
    for (size_t i = 1; i < by_offset.size(); ++i) {
      const GgufTensor& before = *by_offset[i - 1];
      if (before.offset + before.bytes <= by_offset[i]->offset) continue;
      return fail(ErrorKind::kInvalidData,
                  "tensor {} begins at offset {}, inside tensor {}, which ends at {}",
                  by_offset[i]->name, by_offset[i]->offset, before.name,
                  before.offset + before.bytes);
    }
    return {};
  }

  std::span<const std::byte> file_;
  ByteReader reader_;
  GgufHeader header_;
  uint64_t alignment_ = kDefaultAlignment;
  uint64_t n_elements_ = 0;  // of arrays so far
};

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  const auto found = std::ranges::find(kTypes, id, &GgmlType::id);
  return found == kTypes.end() ? nullptr : &*found;
}

Result<GgufHeader> parse_gguf(std::span<const std::byte> file) { return HeaderReader(file).read(); }

}  // namespace penstock
