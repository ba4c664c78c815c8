#include "controller/api/actions/link_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/time/time_budget.h"
#include "common/files/json.h"
#include "controller/api/actions/accepted_answer.h"
#include "proto/text.h"

namespace espalier::controller {
namespace {

constexpr std::size_t kBetweenLooks = 16;  // lines or reports, at the clock

// One request, which lives until it is answered.
class LinkReports : public std::enable_shared_from_this<LinkReports> {
 public:
  LinkReports(Controller& controller, std::string_view lines,
              std::function<void(Result<std::string>)> done)
      : controller_(controller), text_(lines), rest_(text_), done_(std::move(done)) {}

  void Continue() {
    const TimeBudget budget(controller_.loop(), kSliceOfReports);
    for (std::size_t step = 1; !rest_.empty(); ++step) {
      if (const Result<void> read = ReadLine(); !read) {
        return done_(tl::unexpected<Error>(read.error()));
      }
      if (step % kBetweenLooks == 0 && budget.IsSpent()) return Post();
    }
    for (std::size_t step = 1; applied_ < reports_.size(); ++step) {
      const Report& report = reports_[applied_++];
      controller_.links().health.HandleFeedReport(report.link, report.up, report.source);
      if (step % kBetweenLooks == 0 && budget.IsSpent()) return Post();
    }
    done_(AcceptedAnswer(applied_));
  }

 private:
  struct Report {
    fabric::LinkId link;
    bool up = false;
    std::string source;
  };

  void Post() {
    controller_.loop().Post([self = shared_from_this()] { self->Continue(); });
  }

  Result<void> ReadLine() {
    using Kind = io::JsonValue::Kind;
    ++number_;
    const std::string_view line = rest_.substr(0, rest_.find('\n'));
    rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
    const auto wrong = [&](std::string_view what) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("line {}: {}", number_, what));
    };
    const auto parsed = io::ParseJson(std::string(line), fmt::format("line {}", number_));
    if (!parsed) return tl::unexpected<Error>(parsed.error());
    const io::JsonValue* link = parsed->Find("link");
    const io::JsonValue* up = parsed->Find("up");
    const io::JsonValue* source = parsed->Find("source");
    if (link == nullptr || link->kind != Kind::kString) {
      return wrong("\"link\" is missing or not a string");
    }
    if (up == nullptr || up->kind != Kind::kBool) {
      return wrong("\"up\" is missing or neither true nor false");
    }
    if (source != nullptr && !wire::IsPrintable(source->text)) {
      return wrong("\"source\" has characters that are not printable");
    }
    const auto id = controller_.state().topology.FindLink(link->text);
    if (!id) {
      return Fail(ErrorCode::kNotFound,
                  fmt::format("line {}: there is no link \"{}\"", number_, link->text));
    }
    reports_.push_back({*id, up->boolean, source == nullptr ? "" : source->text});
    return {};
  }

  Controller& controller_;
  const std::string text_;
  std::string_view rest_;  // of text_, not read yet
  int number_ = 0;         // of the last line
  std::vector<Report> reports_;
  std::size_t applied_ = 0;
  std::function<void(Result<std::string>)> done_;
};

}  // namespace

void HandleLinkReports(Controller& controller, std::string_view lines,
                       std::function<void(Result<std::string>)> done) {
  std::make_shared<LinkReports>(controller, lines, std::move(done))->Continue();
}

}  // namespace espalier::controller
