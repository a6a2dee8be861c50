// How many classes a model tells apart, and what it calls them itself.
#pragma once

#include "class_scores.hpp"
#include "session.hpp"

#if GRAFT_HAS_BODIES
#include "../core/json.hpp"

#include <string>
#include <vector>

GRAFT_BEGIN_NAMESPACE
namespace detail {

inline GRAFT_COLD status labels_do_not_fit(const std::string& where, std::size_t names, std::int64_t classes) {
    return fail(errc::labels_count, where, std::to_string(names) + " names, but the model has " + std::to_string(classes) + " outputs");
}

inline status fit_labels(std::vector<std::string>& names, const std::string& where, std::int64_t classes) {
    if (static_cast<std::int64_t>(names.size()) + 1 == classes) names.insert(names.begin(), "background");
    if (static_cast<std::int64_t>(names.size()) != classes) return labels_do_not_fit(where, names.size(), classes);
    return {};
}

// The names that a model's own metadata give: graft.labels, a JSON array; or class_names of other tools, an array or an object by
// index.
inline result<std::vector<std::string>> labels_of(const model& m, std::int64_t classes, const limits& caps) {
    std::vector<std::string> names;
    for (const char* key : {"graft.labels", "class_names"}) {
        const std::string text = m.metadata(key);
        if (text.empty()) continue;
        const bool own = key[0] == 'g';
        auto parsed = parse_json(text, key, caps);
        if (!parsed.ok()) {
            if (own) return parsed.take_status();
            continue;
        }
        const json& list = parsed.value();
        const bool is_array = list.type == json::kind::array;
        bool good = is_array || (!own && list.type == json::kind::object);
        for (std::size_t i = 0; good && i < list.items.size(); ++i) {
            const json* item = is_array ? &list.items[i] : list.find(std::to_string(i));
            good = item && item->type == json::kind::string;
            if (good) names.push_back(item->string);
        }
        if (good && (own || static_cast<std::int64_t>(names.size()) == classes)) {
            if (classes >= 0) GRAFT_TRY(fit_labels(names, key, classes));
            return names;
        }
        if (own) return fail(errc::json_malformed, key, "this metadata has to be a JSON array of names");
        names.clear();
    }
    return names;
}

inline GRAFT_COLD status no_classes(const model& m, std::size_t output, const shape& scores) {
    std::string others;
    for (std::size_t i = 0; i < m.outputs().size() && i < 8 && m.outputs().size() > 1; ++i) others += (i ? ", " : "") + m.outputs()[i].name;
    return fail(errc::classify_output, "output '" + m.outputs()[output].name + "'",
                "it is " + text(scores) + ": a classifier gives one number a class for each picture" +
                    (others.empty() ? "" : "; the outputs are " + others + "; --output NAME takes another"));
}

// The number of classes that an output has, -1 where only a run can tell. Errors: classify.output.
inline result<std::int64_t> classes_of(const model& m, std::size_t output) {
    const value_info& given = m.outputs()[output];
    if (!given.has_shape) return -1;
    shape one = given.extents;
    if (one.rank() > 1 && one[0] < 0) one[0] = 1;
    if (!one.known()) return -1;
    const std::int64_t classes = classes_in(one, one.rank() > 1 ? one[0] : 1);
    if (classes < 0) return no_classes(m, output, given.extents);
    return classes;
}

}  // namespace detail
GRAFT_END_NAMESPACE
#endif
