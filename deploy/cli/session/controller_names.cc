#include "deploy/cli/session/controller_names.h"

#include <algorithm>
#include <chrono>

namespace espalier::cli {
namespace {

constexpr std::size_t kMaxNames = 10'000;
constexpr std::size_t kMaxNameBytes = 255;

// Where the API has the names of a kind: the member `key` of the items of `array` of GET `target`.
struct NameSource {
  NameKind kind;
  std::string_view target;
  std::string_view array;
  std::string_view key;
};

constexpr NameSource kSources[] = {
    {NameKind::kLink, "/api/v1/links", "links", "id"},
    {NameKind::kNode, "/api/v1/topology", "nodes", "id"},
    {NameKind::kFlow, "/api/v1/flows", "flows", "flow"},
    {NameKind::kJob, "/api/v1/jobs", "jobs", "job"},
    {NameKind::kTreeJob, "/api/v1/forests", "forests", "job"},
    {NameKind::kPolicy, "/api/v1/policies", "policies", "policy"},
    {NameKind::kAgent, "/api/v1/agents", "agents", "name"},
    {NameKind::kWindow, "/api/v1/maintenance", "windows", "window"},
    {NameKind::kEventKind, "/api/v1/event-kinds.json", "kinds", "kind"},
};

}  // namespace

std::vector<std::string> AskNames(const Session& session, NameKind kind, std::string_view partial,
                                  Duration limit) {
  std::vector<std::string> names;
  const auto* const source = std::ranges::find(kSources, kind, &NameSource::kind);
  if (source == std::end(kSources)) return names;
  const auto end = std::chrono::steady_clock::now() + limit;
  std::string after;
  while (names.size() < kMaxNames) {
    const Duration left =
        std::chrono::duration_cast<Duration>(end - std::chrono::steady_clock::now());
    if (left <= Duration::zero()) break;
    const auto response =
        Send(session, "GET", PageTarget(std::string(source->target), after), "", left);
    if (!response || response->status != 200) break;
    const auto page = io::ParseJson(response->body, "answer");
    const io::JsonValue* items = page ? page->Find(source->array) : nullptr;
    // A page of an answer with two arrays may lack the first one.
    if (items == nullptr || items->items.empty()) break;
    for (const io::JsonValue& item : items->items) {
      const io::JsonValue* name = item.Find(source->key);
      if (name == nullptr || !name->text.starts_with(partial)) continue;
      if (IsSafeName(name->text)) names.push_back(name->text);
    }
    const io::JsonValue* next = page->Find("next");
    if (next == nullptr || next->text == after) break;
    after = next->text;
  }
  return names;
}

bool IsSafeName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  if (name.empty() || name.size() > kMaxNameBytes || !is_plain(name.front())) return false;
  return std::ranges::all_of(name, [&](char c) {
    return is_plain(c) || std::string_view("._:/@+-").find(c) != std::string_view::npos;
  });
}

}  // namespace espalier::cli
