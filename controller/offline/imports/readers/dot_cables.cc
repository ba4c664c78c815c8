#include "controller/offline/imports/readers/dot_cables.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "controller/offline/imports/facts/reading.h"

namespace espalier::imports {
namespace {

using fabric::SwitchRole;

struct Token {
  enum class Kind { kName, kMark, kEnd } kind = Kind::kEnd;
  std::string text;  // a name without quotes, or one of "{ } [ ] ; , : = -- ->"
  bool is_quoted = false;
  Place at;
};

// Splits the text into names and marks, without comments.
class Scanner {
 public:
  Scanner(std::string_view text, std::string_view file) : text_(text), file_(file) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  Result<Token> Next() {
    if (auto skipped = SkipBlanks(); !skipped) return Propagate(skipped);
    Token token;
    token.at = Here();
    if (at_ == text_.size()) return token;
    const char c = text_[at_];
    if (c == '"') return ReadQuoted(token);
    if (IsNamePart(c)) {
      token.kind = Token::Kind::kName;
      while (at_ < text_.size() && IsNamePart(text_[at_])) token.text += Take();
      return token;
    }
    token.kind = Token::Kind::kMark;
    const std::string_view two = text_.substr(at_, 2);
    if (two == "--" || two == "->") {
      token.text += Take();
      token.text += Take();
      return token;
    }
    if (std::string_view("{}[];,:=").find(c) != std::string_view::npos) {
      token.text += Take();
      return token;
    }
    if (c == '<') return FailAt(file_, token.at, "HTML is not read (write a name in quotes)");
    return FailAt(file_, token.at,
                  fmt::format("unexpected {} (put names in quotes)", Quote(text_.substr(at_, 1))));
  }

 private:
  static bool IsNamePart(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || static_cast<unsigned char>(c) >= 0x80;
  }

  Place Here() const { return {line_, static_cast<int>(at_ - line_start_) + 1}; }

  char Take() {
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      line_start_ = at_;
    }
    return c;
  }

  void SkipLine() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
  }

  Result<void> SkipBlanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const std::string_view two = text_.substr(at_, 2);
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        Take();
      } else if (two == "//" || (c == '#' && at_ == line_start_)) {
        SkipLine();
      } else if (two == "/*") {
        const Place begin = Here();
        const std::size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) {
          return FailAt(file_, begin, "the comment has no end (close it with */)");
        }
        while (at_ < end + 2) Take();
      } else {
        break;
      }
    }
    return {};
  }

  Result<Token> ReadQuoted(Token token) {
    token.kind = Token::Kind::kName;
    token.is_quoted = true;
    Take();
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_.substr(at_, 2) == "\\\"") Take();
      token.text += Take();
    }
    if (at_ == text_.size()) return FailAt(file_, token.at, "the quote has no end (close it)");
    Take();
    return token;
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

class Reader {
 public:
  Reader(std::string_view text, std::string_view file) : file_(file), scanner_(text, file) {
    cabling_.file = file;
  }

  Result<Cabling> Read() {
    if (auto done = ReadGraph(); !done) return Propagate(done);
    return std::move(cabling_);
  }

 private:
  struct Attributes {
    std::string function;
    Place function_at;
    std::optional<BitsPerSecond> rate;
  };

  Result<void> Advance() {
    auto token = scanner_.Next();
    if (!token) return Propagate(token);
    token_ = std::move(*token);
    return {};
  }
  bool IsMark(std::string_view mark) const {
    return token_.kind == Token::Kind::kMark && token_.text == mark;
  }
  bool IsWord(std::string_view word) const {
    return token_.kind == Token::Kind::kName && !token_.is_quoted && token_.text == word;
  }
  tl::unexpected<Error> FailHere(std::string_view what) const {
    return FailAt(file_, token_.at, what);
  }
  tl::unexpected<Error> FailExpected(std::string_view what) const {
    return FailHere(
        fmt::format("expected {} instead of {}", what,
                    token_.kind == Token::Kind::kEnd ? "the end of the file" : Quote(token_.text)));
  }
  // Moves past a mark that must be here.
  Result<void> Expect(std::string_view mark) {
    if (!IsMark(mark)) return FailExpected(Quote(mark));
    return Advance();
  }

  Result<void> ReadGraph() {
    if (auto done = Advance(); !done) return done;
    if (IsWord("strict")) {
      return FailHere("a strict graph merges parallel cables (remove the word)");
    }
    if (IsWord("digraph")) return FailHere("a digraph has directions (write graph and --)");
    if (!IsWord("graph")) return FailExpected("graph");
    if (auto done = Advance(); !done) return done;
    if (token_.kind == Token::Kind::kName) {
      if (auto done = Advance(); !done) return done;
    }
    if (auto done = Expect("{"); !done) return done;
    while (!IsMark("}")) {
      if (token_.kind == Token::Kind::kEnd) return FailExpected("\"}\"");
      if (auto done = ReadStatement(); !done) return done;
    }
    if (auto done = Advance(); !done) return done;
    if (token_.kind != Token::Kind::kEnd) {
      return FailHere("text after the graph (write one graph a file)");
    }
    return {};
  }

  Result<void> ReadStatement() {
    if (IsMark(";")) return Advance();
    if (IsMark("{") || IsWord("subgraph")) {
      return FailHere("subgraphs and sets of nodes are not read (write one cable a statement)");
    }
    if (IsWord("graph") || IsWord("node") || IsWord("edge")) {
      const bool is_edge = token_.text == "edge";
      if (auto done = Advance(); !done) return done;
      auto defaults = ReadAttributes();
      if (!defaults) return Propagate(defaults);
      if (is_edge) default_rate_ = defaults->rate;
      return {};
    }
    const Place begin = token_.at;
    auto a = ReadEnd();
    if (!a) return Propagate(a);
    if (IsMark("=")) {  // a setting of the graph, such as LLDP=""
      if (auto done = Advance(); !done) return done;
      if (token_.kind != Token::Kind::kName) return FailExpected("a value");
      return Advance();
    }
    if (IsMark("->")) return FailHere("-> has a direction (write --)");
    if (!IsMark("--")) return ReadDevice(*a, begin);
    return ReadCable(std::move(*a), begin);
  }

  Result<void> ReadCable(CableEnd a, Place begin) {
    if (auto done = Advance(); !done) return done;
    if (IsMark("{") || IsWord("subgraph")) {
      return FailHere("sets of nodes are not read (write one cable a statement)");
    }
    const Place b_at = token_.at;
    auto b = ReadEnd();
    if (!b) return Propagate(b);
    if (IsMark("--")) return FailHere("a chain of cables is not read (write one a statement)");
    for (const auto& [end, at] : {std::pair(&a, begin), std::pair(&*b, b_at)}) {
      if (!end->port.empty()) continue;
      return FailAt(file_, at,
                    fmt::format("{} has no port (write \"DEVICE\":\"PORT\")", Quote(end->device)));
    }
    auto attributes = ReadAttributes();
    if (!attributes) return Propagate(attributes);
    if (cabling_.cables.size() == kMaxCables) {
      return FailAt(file_, begin, "more than 1000000 cables (split the fabric)");
    }
    cabling_.cables.push_back({std::move(a), std::move(*b),
                               attributes->rate ? attributes->rate : default_rate_, false, begin});
    return {};
  }

  Result<CableEnd> ReadEnd() {
    if (token_.kind != Token::Kind::kName) return FailExpected("a device");
    CableEnd end;
    end.device = token_.text;
    if (end.device.empty()) return FailHere("the device has no name (name it)");
    if (auto done = Advance(); !done) return Propagate(done);
    if (!IsMark(":")) return end;
    if (auto done = Advance(); !done) return Propagate(done);
    if (token_.kind != Token::Kind::kName || token_.text.empty()) return FailExpected("a port");
    end.port = token_.text;
    if (auto done = Advance(); !done) return Propagate(done);
    if (IsMark(":")) return FailHere("a second colon (put names that have colons in quotes)");
    return end;
  }

  Result<void> ReadDevice(const CableEnd& device, Place at) {
    auto attributes = ReadAttributes();
    if (!attributes) return Propagate(attributes);
    DeviceFact fact;
    fact.name = device.device;
    fact.at = attributes->function.empty() ? at : attributes->function_at;
    const std::string& function = attributes->function;
    if (function == "host" || function == "server") fact.kind = DeviceKind::kHost;
    if (function == "leaf" || function == "tor") fact.role = SwitchRole::kLeaf;
    if (function == "spine") fact.role = SwitchRole::kSpine;
    if (function == "superspine" || function == "core") fact.role = SwitchRole::kCore;
    if (fact.role != SwitchRole::kNone) fact.kind = DeviceKind::kSwitch;
    cabling_.devices.push_back(std::move(fact));
    return {};
  }

  // Reads any number of lists in brackets.
  Result<Attributes> ReadAttributes() {
    Attributes attributes;
    while (IsMark("[")) {
      if (auto done = Advance(); !done) return Propagate(done);
      while (!IsMark("]")) {
        if (auto done = ReadAttribute(attributes); !done) return Propagate(done);
      }
      if (auto done = Advance(); !done) return Propagate(done);
    }
    return attributes;
  }

  Result<void> ReadAttribute(Attributes& attributes) {
    if (IsMark(";") || IsMark(",")) return Advance();
    if (token_.kind != Token::Kind::kName) return FailExpected("an attribute or \"]\"");
    const std::string name = token_.text;
    if (auto done = Advance(); !done) return done;
    if (auto done = Expect("="); !done) return done;
    if (token_.kind != Token::Kind::kName) return FailExpected("a value");
    if (name == "speed" || name == "gbps") {
      const auto rate = ParseRate(token_.text);
      if (!rate) return FailHere(rate.error().message);
      attributes.rate = *rate;
    }
    if (name == "function") {
      attributes.function = token_.text;
      attributes.function_at = token_.at;
    }
    return Advance();
  }

  std::string file_;
  Scanner scanner_;
  Token token_;
  std::optional<BitsPerSecond> default_rate_;  // of the statement `edge [...]`
  Cabling cabling_;
};

}  // namespace

Result<Cabling> ReadDotCables(std::string_view text, std::string_view file) {
  return Reader(text, file).Read();
}

}  // namespace espalier::imports
