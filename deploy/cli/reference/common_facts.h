#pragma once

#include <array>
#include <string_view>

namespace espalier::cli {

// Facts that hold for all commands and that their definitions do not tell.
struct Fact {
  std::string_view name;
  std::string_view text;
};

inline constexpr std::array kExitCodes = {
    Fact{"0", "Done, or there was nothing to do."},
    Fact{"1", "Refused or failed."},
    Fact{"2", "Bad usage or bad input."},
};

inline constexpr std::array kEnvironment = {
    Fact{
        "ESPALIER_CONTROLLER",
        "Address of the controller's API (default: unix:/run/espalier-controller/controller.sock). "
        "The option --controller takes precedence."},
    Fact{"ESPALIER_TOKEN", "Access token for a controller at HOST:PORT."},
    Fact{
        "ESPALIER_TOKEN_FILE",
        "File with the access token. $ESPALIER_TOKEN and the option --token-file take precedence."},
    Fact{"ESPALIER_CA_FILE",
         "CA bundle (PEM) that verifies the server's certificate over https (default: the "
         "system's). The option --ca takes precedence."},
};

inline constexpr std::array kExamples = {
    Fact{"espalier drain node spine3 --until +2h --reason \"new optics\" --dry-run",
         "Show which flows would move if spine3 were drained for two hours."},
    Fact{"espalier explain h0:5", "Show why flow 5 of agent h0 is on its path."},
};

}  // namespace espalier::cli
