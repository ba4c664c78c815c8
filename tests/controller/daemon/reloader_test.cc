// Tests reloading in a controller's process, as its parts are the bus, HTTP, and the controller.
#include "controller/daemon/reloader.h"

#include "tests/controller/daemon/daemon_fixture.h"

namespace espalier::controller {
namespace {

TEST_F(Daemon, ReloadsWhatMayChangeAndOnlyIfAllOfItIsRight) {
  Start();
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
  EXPECT_TRUE(identity::KeyFolder::Open(Path("keys")).value().RevokeToken("viewer"));
  WriteConfig("moves_per_start: seven\n");
  EXPECT_EQ(Ask("POST", "/api/v1/reload", Token(Role::kAdmin)).status, 409);
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
  WriteConfig("moves_per_start: 7 heartbeat_ms: 500\n");
  EXPECT_EQ(Ask("POST", "/api/v1/reload", Token(Role::kAdmin)).status, 200);
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 401);
  EXPECT_THAT(Events(), HasSubstr("need_restart=heartbeat_ms"));
  EXPECT_THAT(Events(), HasSubstr("reload_refused"));
}

// A refusal names the place of the mistake, and nothing of the file is applied.
TEST_F(Daemon, RefusesToReloadAMalformedFileWithItsPlace) {
  Start();
  WriteConfig("moves_per_start: 7\nno_such_field: 1\n");
  const auto refused = Ask("POST", "/api/v1/reload", Token(Role::kAdmin));
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("\"error\""));
  EXPECT_THAT(refused.body, HasSubstr("invalid argument"));
  EXPECT_THAT(refused.body, HasSubstr("c.conf:"));
  EXPECT_THAT(Events(), Not(HasSubstr("need_restart=none")));
  WriteConfig("moves_per_start: 7\n");
  EXPECT_EQ(Ask("POST", "/api/v1/reload", Token(Role::kAdmin)).status, 200);
  EXPECT_THAT(Events(), HasSubstr("need_restart=none"));
}

// A key folder that others can read refuses the reload; the keys of before stay in use.
TEST_F(Daemon, KeepsItsKeysIfTheNextOnesAreNotSafe) {
  Start();
  chmod(Path("keys/tokens").c_str(), 0604);
  const auto refused = Ask("POST", "/api/v1/reload", Token(Role::kAdmin));
  EXPECT_EQ(refused.status, 409);
  EXPECT_THAT(refused.body, HasSubstr("chmod 600"));
  EXPECT_EQ(Ask("GET", "/api/v1/status", Token(Role::kViewer)).status, 200);
}

}  // namespace
}  // namespace espalier::controller
