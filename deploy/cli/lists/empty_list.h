#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/files/json.h"
#include "deploy/cli/lists/list_specs.h"

namespace espalier::cli {

// Says why a list with these filters has no row, and names what there is: `--job nosuch matches
// nothing (there are: A, B)`. `patterns` are by filter of the list, "" for one that was not given;
// `rows` are those of the controller's answer before the filters chose.
std::string WhyEmpty(const ListSpec& spec, const std::vector<std::string>& patterns, bool only_down,
                     const std::vector<io::JsonValue>& rows);

// What is wrong with a pattern for a member with few values; "": it matches one of them.
std::string CheckPattern(const std::string& pattern, const std::vector<std::string>& values);

}  // namespace espalier::cli
