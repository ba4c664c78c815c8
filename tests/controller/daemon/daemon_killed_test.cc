// Kills the controller's process (kill -9) at 200 random points while an operator acts: all
// acknowledged actions are in force afterwards, and the store is consistent.
#include <signal.h>

#include <random>

#include "common/files/json.h"
#include "controller/store/sqlite_database.h"
#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

// The intents in force, as an operator sees them: "weight A" -> "7".
using Said = std::map<std::string, std::string>;

class DaemonKilled : public Daemon {
 protected:
  Said InForce() {
    Said said;
    const auto answer = io::ParseJson(Intents(), "intents");
    EXPECT_TRUE(answer.has_value());
    if (!answer) return said;
    for (const io::JsonValue& intent : answer->Find("intents")->items) {
      said[intent.Find("what")->text + " " + intent.Find("id")->text] = intent.Find("value")->text;
    }
    return said;
  }

  // One action, and what it makes of `said`.
  std::string Draw(Said& said) {
    const auto pick = [this](std::uint64_t bound) { return std::to_string(random_() % bound); };
    const std::string link = "leaf" + pick(2) + "--spine0";
    switch (random_() % 6) {
      case 0:
        said["failed link " + link];
        return "links/fail?id=" + link;
      case 1:
        said.erase("failed link " + link);
        return "links/restore?id=" + link;
      case 2:
        said["drained node spine0"];
        return "nodes/drain?id=spine0";
      case 3:
        said.erase("drained node spine0");
        return "nodes/undrain?id=spine0";
      case 4: {
        const std::string moves = pick(1'000);
        said["policy moves_per_start"] = moves;
        return "policies/set?id=moves_per_start&value=" + moves;
      }
      default: {
        const std::string job = "job" + pick(3);
        const std::string weight = std::to_string(1 + random_() % 1'000);
        if (weight == "1") {
          said.erase("weight " + job);
        } else {
          said["weight " + job] = weight;
        }
        return "jobs/weight?id=" + job + "&weight=" + weight;
      }
    }
  }

  std::mt19937_64 random_{20261121};
};

TEST_F(DaemonKilled, LosesNoActionThatWasAcknowledged) {
  Said said;
  Said with_last;  // and with the one that had no answer, which may be in force or not
  int acted = 0;
  for (int kill = 0; kill <= 200; ++kill) {
    SCOPED_TRACE(kill);
    ASSERT_NO_FATAL_FAILURE(Start());
    const Said found = InForce();
    ASSERT_TRUE(found == said || found == with_last);
    with_last = found;
    if (kill == 200) break;
    // Some actions without interruption, then as many as complete before the kill.
    int status = 200;
    const auto act = [&] {
      said = with_last;
      status = Act(Draw(with_last)).status;
      acted += status != 0 ? 1 : 0;
      EXPECT_THAT(status, testing::AnyOf(0, 200, 409));
    };
    for (int i = 0; i < kill % 4; ++i) act();
    std::thread killer([pid = process_->pid(), delay = random_() % 10'000] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
      ::kill(pid, SIGKILL);
    });
    while (status != 0) act();
    killer.join();
    process_.reset();
  }
  process_.reset();
  EXPECT_GE(acted, 300);
  RecordProperty("acknowledged", acted);
  const auto checked = Database::Open(store_).value().CheckStructure();
  EXPECT_TRUE(checked.has_value()) << checked.error().message;
}

}  // namespace
}  // namespace espalier::controller
