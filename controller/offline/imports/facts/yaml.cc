#include "controller/offline/imports/facts/yaml.h"

#include <fmt/format.h>
#include <yaml.h>

#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using io::JsonValue;

constexpr std::size_t kMaxDepth = 64;
constexpr std::size_t kMaxValues = 8'000'000;

Place PlaceOf(const yaml_mark_t& mark) {
  return {static_cast<int>(mark.line) + 1, static_cast<int>(mark.column) + 1};
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : file_(file) {
    if (text.empty()) text = "";  // libyaml refuses a null pointer
    yaml_parser_initialize(&parser_);
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Reader() { yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Result<JsonValue> Read() {
    for (;;) {
      yaml_event_t event;
      if (yaml_parser_parse(&parser_, &event) == 0) {
        return FailAt(file_, PlaceOf(parser_.problem_mark),
                      fmt::format("{} (correct the YAML)",
                                  parser_.problem == nullptr ? "bad YAML" : parser_.problem));
      }
      const yaml_event_type_t type = event.type;
      auto done = Handle(event);
      yaml_event_delete(&event);
      if (!done) return Propagate(done);
      if (type == YAML_STREAM_END_EVENT) break;
    }
    if (!root_) return FailAt(file_, {}, "the file is empty (give a topology)");
    return std::move(*root_);
  }

 private:
  // A mapping or sequence under construction, and the key of its next member.
  struct Frame {
    JsonValue value;
    std::unordered_set<std::string> keys;
    std::optional<std::string> key;
    Place key_at;
  };

  Result<void> Handle(const yaml_event_t& event) {
    const Place at = PlaceOf(event.start_mark);
    switch (event.type) {
      case YAML_ALIAS_EVENT:
        return FailAt(file_, at, "an alias is not read (write its value out)");
      case YAML_DOCUMENT_START_EVENT:
        if (root_) return FailAt(file_, at, "a second document (keep one)");
        return {};
      case YAML_SCALAR_EVENT:
        return AddScalar(event, at);
      case YAML_SEQUENCE_START_EVENT:
        return Open(JsonValue::Kind::kArray, event.data.sequence_start.anchor != nullptr, at);
      case YAML_MAPPING_START_EVENT:
        return Open(JsonValue::Kind::kObject, event.data.mapping_start.anchor != nullptr, at);
      case YAML_SEQUENCE_END_EVENT:
      case YAML_MAPPING_END_EVENT: {
        JsonValue value = std::move(stack_.back().value);
        stack_.pop_back();
        Add(std::move(value));
        return {};
      }
      default:
        return {};
    }
  }

  bool NeedsKey() const {
    return !stack_.empty() && stack_.back().value.kind == JsonValue::Kind::kObject &&
           !stack_.back().key;
  }

  Result<void> Count(bool has_anchor, Place at) {
    if (has_anchor) return FailAt(file_, at, "an anchor is not read (remove it)");
    if (++values_ <= kMaxValues) return {};
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{}: more than {} values (split the file)", At(file_, at), kMaxValues));
  }

  Result<void> AddScalar(const yaml_event_t& event, Place at) {
    const auto& scalar = event.data.scalar;
    if (auto counted = Count(scalar.anchor != nullptr, at); !counted) return counted;
    std::string text(reinterpret_cast<const char*>(scalar.value), scalar.length);
    if (NeedsKey()) {
      Frame& frame = stack_.back();
      if (!frame.keys.insert(text).second) {
        return FailAt(file_, at, fmt::format("duplicate key {} (keep one)", Quote(text)));
      }
      frame.key = std::move(text);
      frame.key_at = at;
      return {};
    }
    JsonValue value;
    value.kind = JsonValue::Kind::kString;
    value.text = std::move(text);
    value.line = at.line;
    value.column = at.column;
    Add(std::move(value));
    return {};
  }

  Result<void> Open(JsonValue::Kind kind, bool has_anchor, Place at) {
    if (auto counted = Count(has_anchor, at); !counted) return counted;
    if (NeedsKey()) return FailAt(file_, at, "a key that is no text (write a name)");
    if (stack_.size() == kMaxDepth) {
      return FailAt(file_, at,
                    fmt::format("nested more than {} levels deep (reduce the nesting)", kMaxDepth));
    }
    JsonValue& value = stack_.emplace_back().value;
    value.kind = kind;
    value.line = at.line;
    value.column = at.column;
    return {};
  }

  void Add(JsonValue value) {
    if (stack_.empty()) {
      root_ = std::move(value);
      return;
    }
    Frame& holder = stack_.back();
    if (holder.value.kind == JsonValue::Kind::kArray) {
      holder.value.items.push_back(std::move(value));
      return;
    }
    value.key_line = holder.key_at.line;
    value.key_column = holder.key_at.column;
    holder.value.members.emplace_back(std::move(*holder.key), std::move(value));
    holder.key.reset();
  }

  std::string file_;
  yaml_parser_t parser_{};
  std::vector<Frame> stack_;
  std::optional<JsonValue> root_;
  std::size_t values_ = 0;
};

}  // namespace

Result<JsonValue> ParseYaml(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
