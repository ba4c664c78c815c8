#pragma once

#include "deploy/cli/session/operator_session.h"

namespace espalier::cli {

// Adds `espalier status`: the fabric's health with its reasons, what operators took out of service,
// and the figures that say something; all figures with --verbose. With --wait it ends once the
// health is ok.
void AddStatus(CLI::App& app, const SessionPtr& session);

}  // namespace espalier::cli
