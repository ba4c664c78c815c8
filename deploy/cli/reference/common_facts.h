#pragma once

#include <array>
#include <string_view>

namespace espalier::cli {

// What holds for all commands, and their definitions do not say.
struct Fact {
  std::string_view name;
  std::string_view text;
};

inline constexpr std::array kExitCodes = {
    Fact{"0", "Done, also where there was nothing to do."},
    Fact{"1", "Refused or failed."},
    Fact{"2", "Bad usage or bad input."},
};

inline constexpr std::array kEnvironment = {
    Fact{"ESPALIER_CONTROLLER",
         "The controller's API, where --controller is not given; without either, "
         "unix:/run/espalier-controller/controller.sock."},
    Fact{"ESPALIER_TOKEN", "The token for a controller at host:port."},
    Fact{"ESPALIER_TOKEN_FILE", "A file with that token."},
    Fact{"ESPALIER_CA_FILE",
         "The certificates (PEM) of authorities to believe over https; without it, those of the "
         "system."},
};

inline constexpr std::array kExamples = {
    Fact{"espalier drain node spine3 --until +2h --reason \"new optics\" --dry-run",
         "Show which flows would move if spine3 were drained for two hours."},
    Fact{"espalier explain h0:5", "Show why flow 5 of agent h0 is on its path."},
};

}  // namespace espalier::cli
