#pragma once

namespace CLI {
class App;
}

namespace espalier::doctor {

// Adds `doctor`, which checks this machine as a host, and the controller if one answers. It sets
// exit_code: 0 if no check failed, 1 if one did, 2 for bad usage. app and exit_code must outlive
// the parsing.
void AddDoctorCommand(CLI::App& app, int& exit_code);

}  // namespace espalier::doctor
