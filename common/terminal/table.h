#pragma once

#include <string>
#include <vector>

#include "common/files/json.h"

namespace espalier::cli {

struct Column {
  std::string title;
  std::string key;  // of the member to show; KEY.KEY: of a member of a member
};

// Prints JSON objects as the rows of an aligned table on standard output.
void PrintTable(const std::vector<Column>& columns, const std::vector<io::JsonValue>& rows);

}  // namespace espalier::cli
