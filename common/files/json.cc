#include "common/files/json.h"

#include <fmt/format.h>
#include <rapidjson/error/error.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <unordered_set>

namespace espalier::io {
namespace {

constexpr std::size_t kMaxDepth = 64;

struct Position {
  int line = 1;
  int column = 1;
};

// The input as a RapidJSON Stream that also tracks the line and the start of the current string.
// The end reads as '\0'.
class PositionStream {
 public:
  using Ch = char;

  explicit PositionStream(std::string_view text) : text_(text) {}

  Ch Peek() const { return offset_ < text_.size() ? text_[offset_] : '\0'; }
  Ch Take() {
    if (offset_ >= text_.size()) return '\0';
    const char c = text_[offset_];
    if (c == '\n') {
      ++line_;
      line_start_ = offset_ + 1;
    }
    TrackString(c);
    ++offset_;
    return c;
  }
  std::size_t Tell() const { return offset_; }

  // Required by the concept for parsing in place, which is not used here.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  void Flush() {}
  std::size_t PutEnd(Ch*) { return 0; }

  std::string_view text() const { return text_; }
  Position StringStart() const { return string_start_; }
  // The position of an offset that is not before the current line.
  Position At(std::size_t offset) const {
    return {line_, static_cast<int>(offset - std::min(offset, line_start_)) + 1};
  }

 private:
  void TrackString(char c) {
    if (!in_string_) {
      in_string_ = c == '"';
      if (in_string_) string_start_ = At(offset_);
    } else if (escaped_) {
      escaped_ = false;
    } else {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    }
  }

  std::string_view text_;
  std::size_t offset_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  bool in_string_ = false;
  bool escaped_ = false;
  Position string_start_;
};

struct Failure {
  Position at;
  std::string what;
};

// Builds the tree of values from the reader's events.
class TreeBuilder {
 public:
  explicit TreeBuilder(const PositionStream& stream) : stream_(stream) {}

  JsonValue TakeRoot() { return std::move(root_); }
  const std::optional<Failure>& failure() const { return failure_; }

  bool Null() { return Add(JsonValue::Kind::kNull, BeforeEnd(4)); }
  bool Bool(bool value) {
    JsonValue& added = Make(JsonValue::Kind::kBool, BeforeEnd(value ? 4 : 5));
    added.boolean = value;
    return Close();
  }
  // Takes the number from the input, as it is written there.
  bool RawNumber(const char*, rapidjson::SizeType, bool) {
    const std::size_t end = stream_.Tell();
    std::size_t begin = end;
    while (begin > 0 && IsNumberPart(stream_.text()[begin - 1])) --begin;
    JsonValue& added = Make(JsonValue::Kind::kNumber, stream_.At(begin));
    added.text = stream_.text().substr(begin, end - begin);
    return Close();
  }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    if (!CheckString({text, length})) return false;
    JsonValue& added = Make(JsonValue::Kind::kString, stream_.StringStart());
    added.text.assign(text, length);
    return Close();
  }
  bool StartObject() { return Open(JsonValue::Kind::kObject); }
  bool StartArray() { return Open(JsonValue::Kind::kArray); }
  bool EndObject(rapidjson::SizeType) { return Close(); }
  bool EndArray(rapidjson::SizeType) { return Close(); }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    if (!CheckString({text, length})) return false;
    Frame& frame = stack_.back();
    frame.key.assign(text, length);
    frame.key_at = stream_.StringStart();
    if (frame.keys.insert(frame.key).second) return true;
    failure_ = {frame.key_at, fmt::format("duplicate key \"{}\" (keep one)", frame.key)};
    return false;
  }

  // Never called: numbers come as RawNumber.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

 private:
  // A value under construction, and the key of its next member.
  struct Frame {
    JsonValue value;
    std::unordered_set<std::string> keys;
    std::string key;
    Position key_at;
  };

  static bool IsNumberPart(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+' || c == '.' ||
           c == 'e' || c == 'E';
  }

  // RapidJSON accepts the second half of a surrogate pair on its own ("\\udc00"), which has no
  // UTF-8 encoding, and decodes it as bytes from ED A0 to ED BF.
  bool CheckString(std::string_view text) {
    for (std::size_t at = text.find('\xed'); at != std::string_view::npos;
         at = text.find('\xed', at + 1)) {
      if (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0xa0) continue;
      failure_ = {stream_.StringStart(),
                  "the string has half of a surrogate pair (write both halves)"};
      return false;
    }
    return true;
  }

  Position BeforeEnd(std::size_t length) const { return stream_.At(stream_.Tell() - length); }

  JsonValue& Make(JsonValue::Kind kind, Position at) {
    JsonValue& value = stack_.emplace_back().value;
    value.kind = kind;
    value.line = at.line;
    value.column = at.column;
    return value;
  }

  bool Add(JsonValue::Kind kind, Position at) {
    Make(kind, at);
    return Close();
  }

  bool Open(JsonValue::Kind kind) {
    const Position at = BeforeEnd(1);
    if (stack_.size() == kMaxDepth) {
      failure_ = {at,
                  fmt::format("nested more than {} levels deep (reduce the nesting)", kMaxDepth)};
      return false;
    }
    Make(kind, at);
    return true;
  }

  // Moves the topmost value, which is complete, into the value that contains it.
  bool Close() {
    JsonValue value = std::move(stack_.back().value);
    stack_.pop_back();
    if (stack_.empty()) {
      root_ = std::move(value);
      return true;
    }
    Frame& holder = stack_.back();
    if (holder.value.kind == JsonValue::Kind::kArray) {
      holder.value.items.push_back(std::move(value));
    } else {
      value.key_line = holder.key_at.line;
      value.key_column = holder.key_at.column;
      holder.value.members.emplace_back(std::move(holder.key), std::move(value));
    }
    return true;
  }

  const PositionStream& stream_;
  std::vector<Frame> stack_;
  JsonValue root_;
  std::optional<Failure> failure_;
};

// What is wrong with the syntax, and the remedy, in place of RapidJSON's own messages.
std::string_view SyntaxMessage(rapidjson::ParseErrorCode code) {
  switch (code) {
    case rapidjson::kParseErrorDocumentEmpty:
      return "the document is empty (write an object: {...})";
    case rapidjson::kParseErrorDocumentRootNotSingular:
      return "text follows the end of the document (remove it)";
    case rapidjson::kParseErrorObjectMissName:
      return "a key is missing or has no quotes (write it in double quotes)";
    case rapidjson::kParseErrorObjectMissColon:
      return "a colon is missing after the key (add it)";
    case rapidjson::kParseErrorObjectMissCommaOrCurlyBracket:
      return "a comma or } is missing after the previous field (add it)";
    case rapidjson::kParseErrorArrayMissCommaOrSquareBracket:
      return "a comma or ] is missing after the previous item (add it)";
    case rapidjson::kParseErrorStringUnicodeEscapeInvalidHex:
      return "\\u needs four hexadecimal digits (such as \\u00e9)";
    case rapidjson::kParseErrorStringUnicodeSurrogateInvalid:
      return "the string has half of a surrogate pair (write both halves)";
    case rapidjson::kParseErrorStringEscapeInvalid:
      return "the string has an invalid escape or a control character (write \\\\ for a backslash, "
             "\\n for the end of a line)";
    case rapidjson::kParseErrorStringMissQuotationMark:
      return "the string has no closing quotation mark (add it)";
    case rapidjson::kParseErrorStringInvalidEncoding:
      return "the string is not valid UTF-8 (save the file as UTF-8)";
    case rapidjson::kParseErrorNumberTooBig:
      return "the number is too large (write one below 1.8e308)";
    case rapidjson::kParseErrorNumberMissFraction:
      return "a digit is missing after the decimal point (add it)";
    case rapidjson::kParseErrorNumberMissExponent:
      return "a digit is missing in the exponent (add it)";
    default:
      return "this is not a JSON value (write a string in double quotes, a number, true, false, "
             "null, [...] or {...})";
  }
}

tl::unexpected<Error> FailAt(std::string_view name, Position at, std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{}:{}:{}: {}", name, at.line, at.column, what));
}

}  // namespace

JsonValue::JsonValue() = default;
JsonValue::~JsonValue() = default;
JsonValue::JsonValue(const JsonValue&) = default;
JsonValue::JsonValue(JsonValue&&) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue&) = default;
JsonValue& JsonValue::operator=(JsonValue&&) noexcept = default;

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (const auto& [name, value] : members) {
    if (name == key) return &value;
  }
  return nullptr;
}

Result<JsonValue> ParseJson(std::string_view text, std::string_view name) {
  constexpr unsigned kFlags =
      rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseValidateEncodingFlag;
  PositionStream stream(text);
  TreeBuilder builder(stream);
  rapidjson::Reader reader;
  const rapidjson::ParseResult parsed = reader.Parse<kFlags>(stream, builder);
  if (builder.failure()) return FailAt(name, builder.failure()->at, builder.failure()->what);
  if (parsed.IsError()) {
    return FailAt(name, stream.At(parsed.Offset()), SyntaxMessage(parsed.Code()));
  }
  if (stream.Tell() != text.size()) {
    return FailAt(name, stream.At(stream.Tell()), "a zero byte follows the document (remove it)");
  }
  return builder.TakeRoot();
}

}  // namespace espalier::io
