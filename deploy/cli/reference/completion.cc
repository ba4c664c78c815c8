#include "deploy/cli/reference/completion.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace espalier::cli {
namespace {

// The state after some words of a command line.
class Reader {
 public:
  explicit Reader(const Command& root) : command_(&root) {}

  void Read(const std::string& word) {
    if (awaiting_ != nullptr) {
      given_[awaiting_->names.back()] = word;
      awaiting_ = nullptr;
    } else if (!only_positionals_ && word == "--") {
      only_positionals_ = true;
    } else if (!only_positionals_ && word.size() > 1 && word.starts_with('-')) {
      ReadOption(word);
    } else if (const Command* next = NextCommand(word)) {
      command_ = next;
      positionals_ = 0;
      seen_.clear();
    } else {
      ++positionals_;
    }
  }

  Completion Offer(const std::string& word) const {
    Completion completion{.partial = word, .given = given_};
    const std::size_t sign = word.find('=');
    if (awaiting_ != nullptr) {
      OfferValue(*awaiting_, completion);
    } else if (!only_positionals_ && word.starts_with("--") && sign != std::string::npos) {
      const Argument* option = command_->FindOption(word.substr(0, sign));
      completion.before = word.substr(0, sign + 1);
      completion.partial = word.substr(sign + 1);
      if (option != nullptr) OfferValue(*option, completion);
    } else if (!only_positionals_ && word.starts_with('-')) {
      OfferOptions(completion);
    } else {
      OfferCommands(completion);
      if (const Argument* positional = Positional()) OfferValue(*positional, completion);
    }
    return completion;
  }

 private:
  void ReadOption(const std::string& word) {
    const std::size_t sign = std::min(word.find('='), word.size());
    const Argument* option = command_->FindOption(word.substr(0, sign));
    if (option == nullptr) return;
    seen_.insert(option);
    if (option->IsFlag()) return;
    if (sign < word.size()) {
      given_[option->names.back()] = word.substr(sign + 1);
    } else {
      awaiting_ = option;
    }
  }

  const Command* NextCommand(const std::string& word) const {
    return only_positionals_ || positionals_ > 0 ? nullptr : command_->FindCommand(word);
  }

  const Argument* Positional() const {
    const auto& all = command_->positionals;
    if (positionals_ < all.size()) return &all[positionals_];
    return !all.empty() && all.back().is_repeatable ? &all.back() : nullptr;
  }

  void OfferCommands(Completion& completion) const {
    if (only_positionals_ || positionals_ > 0) return;
    for (const Command& command : command_->commands) {
      if (!command.LastName().starts_with(completion.partial)) continue;
      completion.candidates.push_back({std::string(command.LastName()), command.help});
    }
  }

  void OfferOptions(Completion& completion) const {
    for (const Argument& option : command_->options) {
      if (seen_.contains(&option) && !option.is_repeatable) continue;
      for (const std::string& name : option.names) {
        if (name.starts_with(completion.partial)) {
          completion.candidates.push_back({name, option.help});
        }
      }
    }
    for (const char* name : {"-h", "--help"}) {
      if (std::string_view(name).starts_with(completion.partial)) {
        completion.candidates.push_back({name, "Print the help of the command"});
      }
    }
  }

  static void OfferValue(const Argument& argument, Completion& completion) {
    completion.kind = argument.kind;
    for (const std::string& choice : argument.choices) {
      if (!choice.starts_with(completion.partial)) continue;
      completion.candidates.push_back({completion.before + choice, ""});
    }
    // In a list of names, complete the last one.
    const bool is_path =
        argument.kind == ArgumentKind::kFile || argument.kind == ArgumentKind::kFolder;
    const std::size_t comma = completion.partial.rfind(',');
    if (is_path || comma == std::string::npos) return;
    completion.before += completion.partial.substr(0, comma + 1);
    completion.partial.erase(0, comma + 1);
  }

  const Command* command_;
  const Argument* awaiting_ = nullptr;  // the option whose value comes next
  bool only_positionals_ = false;
  std::size_t positionals_ = 0;
  std::set<const Argument*> seen_;
  std::map<std::string, std::string> given_;
};

}  // namespace

Completion Complete(const Command& root, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  Reader reader(root);
  for (std::size_t i = 0; i + 1 < words.size(); ++i) reader.Read(words[i]);
  return reader.Offer(words.back());
}

}  // namespace espalier::cli
