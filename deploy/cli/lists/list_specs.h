#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/terminal/table.h"

namespace espalier::cli {

// An option that chooses rows of a list.
struct ListFilter {
  std::string option;  // "--job"
  std::string help;
  std::vector<std::string> keys;  // members of a row; empty: the controller chooses, by this query
  std::string query;
  std::vector<std::string> values = {};  // all that the members may have, if they are few
};

// One list of the controller's API, and how it is shown.
struct ListSpec {
  std::string name;  // of the command, the path of the API and the array in the answer
  std::string help;
  bool is_long = false;  // it is read in pages
  std::vector<Column> columns;
  std::vector<Column> wide_columns;  // also shown with `--output wide`
  std::vector<ListFilter> filters;
  std::string order;       // the member by which rows are sorted; "-KEY": descending
  bool has_times = false;  // rows have a member "time"
  std::string down_key;    // with --down: only rows whose member is not `up_value`
  std::string_view up_value;
  std::string path;  // of the API; "": the name
  // In tables: members that mean nothing where the member `known_by` is false or 0 are "-", and
  // fractions are percentages.
  std::string known_by;
  std::vector<std::string> known_keys;
  std::vector<std::string> percent_keys;
};

const std::vector<ListSpec>& ListSpecs();
// `espalier flows --ended`. Its filters are those of `flows`, in the same
// order, of which it takes those that exclude nothing (--job, --host, --state).
const ListSpec& EndedFlowsSpec();
// `espalier flows --unannounced`: large flows that switches saw and no agent reports. Of the
// filters of `flows` it takes --host.
const ListSpec& UnannouncedFlowsSpec();

}  // namespace espalier::cli
