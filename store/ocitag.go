package store

import (
	"fmt"
	"strings"

	"github.com/sealift/sealift/internal/sha256hex"
)

// maxTag is the maximum length of a tag (distribution-spec).
const maxTag = 128

// hashedTag begins the tags of keys that do not fit into one. No escape does.
const hashedTag = "_z"

// keyTag returns the tag of a key. Characters that tags cannot have, and the underscore, become an underscore and two hexadecimal digits
// for each byte. A long key becomes _z and its sha256.
func keyTag(key string) string {
	tag := escapeKey(key)
	if len(tag) > maxTag {
		return hashedTag + sha256hex.Of(key)
	}
	return tag
}

func escapeKey(key string) string {
	var b strings.Builder
	for n := range len(key) {
		c := key[n]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if letter || n > 0 && (c == '.' || c == '-') {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// mayHavePrefix reports whether a tag can be that of a key with a prefix.
func mayHavePrefix(tag, prefix string) bool {
	return strings.HasPrefix(tag, hashedTag) || strings.HasPrefix(tag, escapeKey(prefix))
}
