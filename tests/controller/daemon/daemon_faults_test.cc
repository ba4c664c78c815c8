// Tests the daemons' processes on faulty machines: full and read-only disks, stores that are
// damaged, newer or from the future, and addresses that other processes use.
#include "controller/store/sqlite_database.h"
#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

class DaemonFaults : public Daemon {
 protected:
  // Runs programs in a mount namespace of their own after this script, in which $D is a folder of
  // the test. False if that is not allowed.
  bool StartWithin(const std::string& script) {
    within_ = {"unshare", "--mount", "--map-root-user",
               "sh",      "-euc",    "D=" + folder_.path() + "; " + script + "; exec \"$@\"",
               "sh"};
    Command command{.argv = within_};
    command.argv.emplace_back("true");
    const auto ended = RunCommand(command);
    return ended && ended->exit_code == 0;
  }

  // A store with one intent, as a controller left it.
  void MakeStore() {
    Start();
    EXPECT_EQ(Act("links/fail?id=leaf0--spine0").status, 200);
    process_.reset();
  }
  void ChangeStore(const std::string& sql) {
    Database database = Database::Open(store_).value();
    EXPECT_TRUE(database.Execute(sql).has_value());
    // All data is in the one file, so that reading it changes nothing.
    EXPECT_TRUE(database.Execute("PRAGMA wal_checkpoint(TRUNCATE)").has_value());
  }
};

TEST_F(DaemonFaults, RefusesAStoreOfALaterVersion) {
  MakeStore();
  ChangeStore("PRAGMA user_version = 99");
  ExpectRefusal("upgrade Espalier, or restore a backup");
}

TEST_F(DaemonFaults, RefusesAStoreThatIsDamagedInside) {
  MakeStore();
  ChangeStore("SELECT 1");
  {
    std::fstream file(store_, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(store_);
    for (std::size_t at = 4'096; at + 512 < size; at += 4'096) {
      file.seekp(static_cast<std::streamoff>(at));
      file << std::string(512, '\x5a');
    }
  }
  ExpectRefusal("espalier store restore");
}

// The clock was a year ahead at the last change and has been corrected.
TEST_F(DaemonFaults, StartsWithAClockThatWentBack) {
  MakeStore();
  ChangeStore("UPDATE revision SET time_us = time_us + 31536000000000");
  Start();
  AwaitEvent("clock_behind_store");
  EXPECT_EQ(Act("links/drain?id=leaf1--spine0").status, 200);
}

TEST_F(DaemonFaults, RefusesTimesThatArePast) {
  Start();
  const std::string before = Intents();
  for (const char* until : {"2001-01-01T00:00Z", "-5m", "%2B0s", "yesterday"}) {
    for (const std::string action : {"links/drain?id=leaf0--spine0", "jobs/weight?id=A&weight=2",
                                     "policies/set?id=algorithm&value=greedy"}) {
      EXPECT_EQ(Act(action + "&until=" + until).status, 400) << action << " " << until;
    }
  }
  EXPECT_EQ(Intents(), before);
}

TEST_F(DaemonFaults, RefusesAReadOnlyDisk) {
  MakeStore();
  if (!StartWithin("mount --bind $D $D; mount -o remount,bind,ro $D")) {
    GTEST_SKIP() << "no mount namespaces here";
  }
  // Only the store's disk is read-only, so the socket is elsewhere.
  std::filesystem::create_directory(Path("disk"));
  std::filesystem::rename(store_, Path("disk/store.db"));
  store_ = Path("disk/store.db");
  WriteConfig("");
  ASSERT_TRUE(StartWithin("mount --bind $D/disk $D/disk; mount -o remount,bind,ro $D/disk"));
  ExpectRefusal("store.db");
  ExpectRefusal("writable");
}

TEST_F(DaemonFaults, DoesNotStartOnAFullDisk) {
  std::filesystem::create_directory(Path("disk"));
  store_ = Path("disk/store.db");
  WriteConfig("");
  if (!StartWithin("mount -t tmpfs -o size=16k none $D/disk")) {
    GTEST_SKIP() << "no mount namespaces here";
  }
  ExpectRefusal("free space");
}

// An action that cannot be made durable is refused and moves nothing; with room again, it works.
TEST_F(DaemonFaults, RefusesActionsWhileTheDiskIsFull) {
  std::filesystem::create_directory(Path("disk"));
  store_ = Path("disk/store.db");
  WriteConfig("");
  if (!StartWithin("mount -t tmpfs -o size=2m none $D/disk")) {
    GTEST_SKIP() << "no mount namespaces here";
  }
  Start();
  ASSERT_EQ(Act("links/drain?id=leaf1--spine0").status, 200);
  const std::string before = Intents();
  const std::string filler =
      "/proc/" + std::to_string(process_->pid()) + "/root" + Path("disk/filler");
  {
    std::ofstream file(filler, std::ios::binary);
    const std::string page(4'096, 'x');
    while (file.write(page.data(), 4'096).flush()) continue;
  }
  // More than fits in the pages that the log already has.
  io::HttpResponse answer;
  const std::string reason(2'000, 'r');
  for (int i = 0; i < 50 && answer.status != 429; ++i) {
    answer = Act("links/fail?id=leaf0--spine0&reason=" + reason);
    if (answer.status == 200) {
      EXPECT_EQ(Act("links/restore?id=leaf0--spine0").status, 200);
    }
  }
  EXPECT_EQ(answer.status, 429) << answer.body;
  EXPECT_THAT(answer.body, HasSubstr("free space on its disk"));
  EXPECT_THAT(Intents(), HasSubstr("leaf1--spine0"));
  EXPECT_THAT(Intents(), Not(HasSubstr("leaf0--spine0")));
  EXPECT_THAT(CallUnix("GET", "links").body, Not(HasSubstr("DOWN")));
  ASSERT_TRUE(std::filesystem::remove(filler));
  EXPECT_EQ(Act("links/fail?id=leaf0--spine0").status, 200);
  EXPECT_THAT(Intents(), HasSubstr("leaf0--spine0"));
}

TEST_F(DaemonFaults, RefusesASocketThatAnotherControllerServes) {
  Start();
  const std::string mine = Path("c.conf");
  std::ofstream(mine) << "topology_file: \"" << Path("topology.json") << "\" state_file: \""
                      << Path("other.db") << "\" key_folder: \"" << Path("keys")
                      << "\" listen: \"tcp://127.0.0.1:*\" http: \"unix:" << Path("api.sock")
                      << "\"";
  const auto second = RunCommand(Program());
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_NE(second->exit_code, 0);
  EXPECT_THAT(second->err, HasSubstr("api.sock"));
  EXPECT_FALSE(std::filesystem::exists(Path("other.db")));
  EXPECT_EQ(CallUnix("GET", "status").status, 200);  // the first one is heard as ever
}

// The agent's process with wrong files and addresses.
TEST_F(DaemonFaults, TheAgentRefusesClearly) {
  identity::KeyFolder keys = identity::KeyFolder::Open(Path("keys")).value();
  ASSERT_TRUE(keys.MakeAgents({"h1", "h2"}, SystemWallTime()));
  const std::string key = Path("keys/agents/h1.key");
  const std::string socket = Path("agent.sock");
  const auto refusal =
      [&](const std::string& more) {
        std::ofstream(Path("a.conf"))
            << "name: \"h1\" nic: \"lo\" no_probing: true log_level: \"error\" "
            << "controller: \"tcp://127.0.0.1:" << bus_port_ << "\" "
            << "controller_keys_file: \"" << Path("keys/controller.pub") << "\" " << more;
        const auto before = Contents();
        const auto ended =
            RunCommand({.argv = {ESPALIER_PROGRAMS "/espalier-agent", "--config", Path("a.conf")}});
        EXPECT_TRUE(ended && (ended->exit_code == 1 || ended->exit_code == 2));
        EXPECT_TRUE(Contents() == before);
        return ended ? ended->err : "";
      };
  const std::string own_key = "key_file: \"" + key + "\" ";
  const std::string own_socket = "local_socket: \"" + socket + "\" ";
  EXPECT_THAT(refusal("key_file: \"" + Path("keys/none") + "\""), HasSubstr("espalier keys make"));
  EXPECT_THAT(refusal("key_file: \"" + Path("keys/agents/h2.key") + "\""),
              HasSubstr("is the key of h2"));
  chmod(key.c_str(), 0644);
  EXPECT_THAT(refusal(own_key), HasSubstr("chmod 600 " + key));
  chmod(key.c_str(), 0600);
  chmod(Path("keys/controller.pub").c_str(), 0666);
  EXPECT_THAT(refusal(own_key), HasSubstr("chmod go-w"));
  chmod(Path("keys/controller.pub").c_str(), 0644);
  EXPECT_THAT(refusal(own_key + "local_socket: \"/proc/espalier/agent.sock\""),
              HasSubstr("/proc/espalier"));
  BoundPort taken;
  taken.Listen();
  const std::string http = "127.0.0.1:" + std::to_string(taken.number());
  EXPECT_THAT(refusal(own_key + own_socket + "http: \"" + http + "\""), HasSubstr(http));
}

}  // namespace
}  // namespace espalier::controller
