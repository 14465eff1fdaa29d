// One spelling for equal JSON documents: sorted keys, no spaces; as tvmake.storage.files.canonical_json writes it.
#ifndef TVMAKE_CANONICAL_JSON_H_
#define TVMAKE_CANONICAL_JSON_H_

#include <string>

namespace tvmake {

// A document without one key of its outermost object. Strings and numbers keep their spelling.
//
// Throws std::invalid_argument if `text` is not JSON.
std::string CanonicalJsonWithout(const std::string& text, const std::string& key);

// A text as a JSON string, quotes included, as Python's json.dumps writes it with ensure_ascii=False.
std::string JsonText(const std::string& text);

}  // namespace tvmake

#endif  // TVMAKE_CANONICAL_JSON_H_
