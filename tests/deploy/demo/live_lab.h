#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deploy/demo/lab_daemons.h"
#include "deploy/lab/lab.h"
#include "tests/temporary_folder.h"

namespace espalier::demo {

// A lab with a real controller and a real agent in each host. Skips the test if this machine allows
// no network namespaces.
class LiveLabTest : public testing::Test {
 protected:
  // Starts a lab with a unique name, which ends with the test.
  void StartLab(lab::LabOptions options) {
    options.name = fmt::format("test-{}", getpid());
    options.die_with_caller = true;
    auto lab = lab::Lab::Start(options);
    if (!lab && (lab.error().code == ErrorCode::kPermissionDenied ||
                 lab.error().code == ErrorCode::kUnsupported)) {
      GTEST_SKIP() << "no network namespaces here: " << lab.error().message;
    }
    ASSERT_TRUE(lab.has_value()) << lab.error().message;
    lab_.emplace(std::move(*lab));
  }
  void TearDown() override {
    daemons_.reset();
    if (lab_) {
      EXPECT_TRUE(lab::Lab::Stop(lab_->record().options.name).has_value());
    }
  }

  // Starts daemons, replacing those that run, if any; their stored state stays.
  void StartDaemons(const std::string& controller_fields = "") {
    daemons_.reset();
    auto daemons = LabDaemons::Start(*lab_, ESPALIER_PROGRAMS, folder_.path(), controller_fields);
    ASSERT_TRUE(daemons.has_value()) << daemons.error().message;
    daemons_.emplace(std::move(*daemons));
  }

  // The events that the controller has recorded, as "TIME KIND TEXT": those of a kind (empty: all)
  // whose text contains `text`. None if it does not answer.
  std::vector<std::string> Events(const std::string& kind, const std::string& text) const {
    std::vector<std::string> events;
    const auto answer = daemons_->Get("/api/v1/events");
    if (!answer) return events;
    for (const auto& event : answer->Find("events")->items) {
      const bool is_wanted = (kind.empty() || event.Find("kind")->text == kind) &&
                             event.Find("text")->text.find(text) != std::string::npos;
      if (!is_wanted) continue;
      events.push_back(fmt::format("{} {} {}", event.Find("time")->text, event.Find("kind")->text,
                                   event.Find("text")->text));
    }
    return events;
  }
  // All events, each on a line of its own.
  std::string Events() const { return fmt::format("\n{}", fmt::join(Events("", ""), "\n")); }

  std::optional<lab::Lab> lab_;
  TemporaryFolder folder_;
  std::optional<LabDaemons> daemons_;
};

}  // namespace espalier::demo
