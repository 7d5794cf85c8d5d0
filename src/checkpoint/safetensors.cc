#include "checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/json.h"
#include "checkpoint/json_text.h"

namespace penstock {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's own bound

struct Dtype {
  std::string_view name;
  uint32_t bits;
};
constexpr std::array kDtypes = std::to_array<Dtype>({
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},      {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"I16", 16},        {"U16", 16},        {"F16", 16},    {"BF16", 16},
    {"I32", 32},    {"U32", 32},        {"F32", 32},        {"I64", 64},    {"U64", 64},
    {"F64", 64},    {"C64", 64},
});

// N, the length of the JSON that follows the first 8 bytes.
Result<uint64_t> header_length(std::span<const std::byte> head, uint64_t file_size) {
  if (file_size < kLengthBytes || head.size() < kLengthBytes) {
    return fail(ErrorKind::kInvalidData,
                "the file has {} bytes, expected a safetensors header of 8 or more", file_size);
  }
  static_assert(std::endian::native == std::endian::little);
  uint64_t length = 0;
  std::memcpy(&length, head.data(), kLengthBytes);
  const uint64_t most = std::min(kMaxHeaderBytes, file_size - kLengthBytes);
  if (length <= most) return length;
  return fail(ErrorKind::kInvalidData,
              "the file of {} bytes claims a header of {} bytes, expected at most {}", file_size,
              length, most);
}

// `json` must be a list of whole numbers from 0 up.
Result<std::vector<uint64_t>> numbers_of(const Json& json, const std::string& tensor,
                                         std::string_view field) {
  std::vector<uint64_t> numbers;
  bool valid = json.is_array();
  for (size_t i = 0; valid && i < json.size(); ++i) {
    valid = json[i].is_number_unsigned();
    if (valid) numbers.push_back(json[i].get<uint64_t>());
  }
  if (valid) return numbers;
  return fail(ErrorKind::kInvalidData,
              "tensor {} has {} {}, expected a list of whole numbers from 0 up", tensor, field,
              brief(json));
}

Result<const Json*> field_of(const Json& entry, const std::string& tensor, const char* field) {
  if (!entry.is_object()) {
    return fail(ErrorKind::kInvalidData, "tensor {} is {}, expected an object", tensor,
                brief(entry));
  }
  const auto found = entry.find(field);
  if (found != entry.end()) return &*found;
  return fail(ErrorKind::kInvalidData, "tensor {} has no \"{}\"", tensor, field);
}

// The bytes a tensor of this shape takes; a sub-byte type fills whole bytes.
Result<uint64_t> bytes_of(const SafetensorsTensor& tensor, const std::string& name, uint32_t bits) {
  uint64_t total = bits;
  bool fits = true;
  for (const uint64_t dim : tensor.shape) {
    fits = fits && !__builtin_mul_overflow(total, dim, &total);
  }
  if (!fits) {
    return fail(ErrorKind::kInvalidData, "tensor {} of shape [{}] is larger than any file", name,
                fmt::join(tensor.shape, ", "));
  }
  if (total % 8 == 0) return total / 8;
  return fail(ErrorKind::kInvalidData, "tensor {} of shape [{}] and dtype {} does not fill bytes",
              name, fmt::join(tensor.shape, ", "), tensor.dtype);
}

// `data_begin` is where offset 0 lies in the file, `data_bytes` how much follows.
Result<SafetensorsTensor> tensor_of(const Json& entry, const std::string& name, uint64_t data_begin,
                                    uint64_t data_bytes) {
  SafetensorsTensor tensor;
  PENSTOCK_ASSIGN(const Json* const dtype, field_of(entry, name, "dtype"));
  PENSTOCK_ASSIGN(const Json* const shape, field_of(entry, name, "shape"));
  PENSTOCK_ASSIGN(const Json* const offsets, field_of(entry, name, "data_offsets"));
  if (!dtype->is_string()) {
    return fail(ErrorKind::kInvalidData, "tensor {} has a dtype that is {}, expected a string",
                name, brief(*dtype));
  }
  tensor.dtype = dtype->get<std::string>();
  PENSTOCK_ASSIGN(tensor.shape, numbers_of(*shape, name, "shape"));
  PENSTOCK_ASSIGN(const auto span, numbers_of(*offsets, name, "data_offsets"));
  if (span.size() != 2 || span[0] > span[1] || span[1] > data_bytes) {
    return fail(ErrorKind::kInvalidData,
                "tensor {} has data_offsets [{}], expected a begin and an end within the file's {} "
                "bytes of data",
                name, fmt::join(span, ", "), data_bytes);
  }
  tensor.offset = data_begin + span[0];
  tensor.bytes = span[1] - span[0];
  // A dtype nobody knows is an error only where the tensor is needed.
  if (const auto bits = safetensors_dtype_bits(tensor.dtype)) {
    PENSTOCK_ASSIGN(const uint64_t expected, bytes_of(tensor, name, *bits));
    if (expected != tensor.bytes) {
      return fail(ErrorKind::kInvalidData,
                  "tensor {} of shape [{}] and dtype {} has {} bytes, expected {}", name,
                  fmt::join(tensor.shape, ", "), tensor.dtype, tensor.bytes, expected);
    }
  }
  return tensor;
}

// Every byte of the data belongs to exactly one tensor.
Result<void> check_layout(const SafetensorsHeader& header, uint64_t data_begin,
                          uint64_t file_size) {
  std::vector<const SafetensorsHeader::value_type*> by_offset;
  for (const auto& entry : header) by_offset.push_back(&entry);
  std::ranges::sort(by_offset, {}, [](const auto* entry) {
    return std::pair(entry->second.offset, entry->second.bytes);
  });
  uint64_t end = data_begin;
  for (const auto* entry : by_offset) {
    const auto& [name, tensor] = *entry;
    if (tensor.offset != end) {
      return fail(ErrorKind::kInvalidData,
                  "tensor {} begins at offset {} of the data, expected {}{}", name,
                  tensor.offset - data_begin, end - data_begin,
                  tensor.offset < end ? ": it overlaps another" : ": there is a hole before it");
    }
    end += tensor.bytes;
  }
  if (end == file_size) return {};
  return fail(ErrorKind::kInvalidData, "the tensors end at byte {}, but the file has {}", end,
              file_size);
}

Result<void> check_metadata(const Json& metadata) {
  bool valid = metadata.is_object();
  for (const auto& [key, value] : metadata.items()) valid = valid && value.is_string();
  if (valid) return {};
  return fail(ErrorKind::kInvalidData, "\"__metadata__\" is no map of strings to strings");
}

}  // namespace

std::optional<uint32_t> safetensors_dtype_bits(std::string_view dtype) {
  const auto found = std::ranges::find(kDtypes, dtype, &Dtype::name);
  return found == kDtypes.end() ? std::nullopt : std::optional(found->bits);
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> head,
                                                   uint64_t file_size) {
  PENSTOCK_ASSIGN(const uint64_t length, header_length(head, file_size));
  if (head.size() - kLengthBytes < length) {
    return fail(ErrorKind::kInvalidData, "the header of {} bytes is cut short at {}", length,
                head.size() - kLengthBytes);
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + kLengthBytes, length);
  auto json = parse_json(text, {.refuse_duplicates = true});
  if (!json) return std::unexpected(json.error().in("the safetensors header"));
  if (!json->is_object()) {
    return fail(ErrorKind::kInvalidData, "the safetensors header is {}, expected an object",
                brief(*json));
  }
  const uint64_t data_begin = kLengthBytes + length;
  SafetensorsHeader header;
  for (const auto& [name, entry] : json->items()) {
    if (name == "__metadata__") {
      PENSTOCK_TRY(check_metadata(entry));
      continue;
    }
    PENSTOCK_ASSIGN(auto tensor, tensor_of(entry, name, data_begin, file_size - data_begin));
    header.emplace(name, std::move(tensor));
  }
  PENSTOCK_TRY(check_layout(header, data_begin, file_size));
  return header;
}

Result<SafetensorsHeader> read_safetensors_header(const File& file) {
  const auto read = [&]() -> Result<SafetensorsHeader> {
    std::vector<std::byte> head(std::min(kLengthBytes, file.size()));
    PENSTOCK_TRY(file.read_exact(0, head));
    PENSTOCK_ASSIGN(const uint64_t length, header_length(head, file.size()));
    head.resize(kLengthBytes + length);
    PENSTOCK_TRY(file.read_exact(0, head));
    return parse_safetensors_header(head, file.size());
  };
  auto header = read();
  if (!header) return std::unexpected(header.error().in(file.path().string()));
  return header;
}

}  // namespace penstock
