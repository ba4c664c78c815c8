// Compares the tool's lists with the description of the API: what a column or a filter names must
// be there, and the values that a filter offers must be all that the API gives.
#include "deploy/cli/lists/list_specs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "common/files/json.h"

namespace espalier::cli {
namespace {

using io::JsonValue;

class ListSpecs : public testing::Test {
 protected:
  ListSpecs() {
    std::ifstream file(ESPALIER_SOURCE_DIR "/controller/api/openapi.json");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    api_ = io::ParseJson(text, "openapi.json").value();
  }

  // The member of a member ...; null if there is none. Follows references.
  const JsonValue* At(const JsonValue* value, std::initializer_list<std::string_view> keys) const {
    for (const std::string_view key : keys) {
      value = Resolve(value);
      value = value == nullptr ? nullptr : value->Find(key);
    }
    return Resolve(value);
  }
  const JsonValue* Resolve(const JsonValue* value) const {
    const JsonValue* const reference = value == nullptr ? nullptr : value->Find("$ref");
    if (reference == nullptr) return value;
    const std::string name = reference->text.substr(reference->text.rfind('/') + 1);
    return At(&api_, {"components", "schemas", name});
  }

  // The description of a list's rows.
  const JsonValue* RowsOf(const ListSpec& spec) const {
    const std::string path = "/api/v1/" + (spec.path.empty() ? spec.name : spec.path);
    return At(&api_, {"paths", path, "get", "responses", "200", "content", "application/json",
                      "schema", "properties", spec.name, "items"});
  }
  // The description of a member KEY or KEY.KEY of a row.
  const JsonValue* MemberOf(const ListSpec& spec, const std::string& key) const {
    const std::size_t dot = key.find('.');
    const JsonValue* const member = At(RowsOf(spec), {"properties", key.substr(0, dot)});
    if (dot == std::string::npos) return member;
    return At(member, {"properties", key.substr(dot + 1)});
  }

  void Check(const ListSpec& spec, bool has_filters) const {
    ASSERT_NE(RowsOf(spec), nullptr) << spec.name << " " << spec.path;
    std::vector<Column> columns = spec.columns;
    columns.insert(columns.end(), spec.wide_columns.begin(), spec.wide_columns.end());
    for (const Column& column : columns) {
      // The tool itself puts several members of `predict` in words.
      if (column.key.ends_with("_words")) continue;
      EXPECT_NE(MemberOf(spec, column.key), nullptr) << spec.name << " " << column.key;
    }
    if (!has_filters) return;
    for (const ListFilter& filter : spec.filters) {
      for (const std::string& key : filter.keys) {
        const JsonValue* const member = MemberOf(spec, key);
        ASSERT_NE(member, nullptr) << spec.name << " " << filter.option;
        if (filter.values.empty()) continue;
        std::set<std::string> known;
        if (const JsonValue* const names = member->Find("enum")) {
          // A dash stands for a text without characters.
          for (const JsonValue& name : names->items) {
            known.insert(name.text.empty() ? "-" : name.text);
          }
        }
        EXPECT_EQ(std::set(filter.values.begin(), filter.values.end()), known)
            << spec.name << " " << filter.option;
      }
    }
  }

  JsonValue api_;
};

TEST_F(ListSpecs, ShowOnlyMembersOfTheApi) {
  for (const ListSpec& spec : cli::ListSpecs()) Check(spec, true);
  Check(EndedFlowsSpec(), false);
  Check(UnannouncedFlowsSpec(), false);
}

TEST_F(ListSpecs, AreAllDescribed) {
  EXPECT_GE(cli::ListSpecs().size(), 10U);
  EXPECT_EQ(MemberOf(cli::ListSpecs().front(), "no_such_member"), nullptr);
  EXPECT_NE(MemberOf(cli::ListSpecs().front(), "attested.state"), nullptr);
}

}  // namespace
}  // namespace espalier::cli
