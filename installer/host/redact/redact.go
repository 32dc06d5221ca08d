// Package redact masks secrets in text that leaves a node: keys, tokens, passwords, kubeconfigs. It reads line by line and
// knows the forms in which sealift, Kubernetes and shells write them. What only looks like a secret is masked too; a text
// without secrets stays readable. It does not parse formats, so it works on logs and broken files.
package redact

import (
	"bytes"
	"encoding/base64"
	"regexp"
)

// Mask replaces a secret. Troubleshoot's redactors write the same.
const Mask = "***HIDDEN***"

// maxLine is the maximum length of a line, in bytes. A longer line is dropped as a whole.
const maxLine = 1 << 20

// maxKeyLines limits a key block without an END line.
const maxKeyLines = 200

// secretWord matches the end of a secret's name.
const secretWord = `(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|access[_-]?key[_-]?id|private[_-]?key|secret[_-]?key|` +
	`encryption[_-]?key|key-data|cert[_-]?key|certificate[_-]?key|credential|authorization|cookie|password[_-]?(?:hash|bcrypt)|[_-]pass|(?-i:[a-z]Pass)|[_-]pwd|psk)s?`

// secretRoots are parts of a secret's name, in lower case.
func secretRoots() []string {
	return []string{"pass", "_pwd", "-pwd", "psk", "secret", "token", "key", "credential", "authorization", "cookie"}
}

// rule is a form of a secret within a line, and its replacement. It is only tried on lines that have one of the
// signs in them, in small letters, and one of the marks: most lines of a log have none, and looking for a form takes its time.
type rule struct {
	signs   []string // nil for secretRoots
	marks   []string // nil for any line with a sign
	form    *regexp.Regexp
	becomes string
}

func lineRules() []rule {
	const (
		name   = `(?i)([\w.-]*` + secretWord + `\\*["']?(?:\s+is)?\s*[:=]+>?\s*)`
		line   = `(?i)^(\s*(?:- )?(?:export |declare -\w+ )?[\w.-]*` + secretWord + `\s*` // all of it an entry of a file
		quoted = `"(?:[^"\\]|\\.)*"`
	)
	named := func(form, becomes string, marks ...string) rule {
		return rule{nil, marks, regexp.MustCompile(form), becomes}
	}
	other := func(form, becomes string, signs ...string) rule {
		return rule{signs, nil, regexp.MustCompile(form), becomes}
	}
	return append(printedSecrets(), []rule{
		other(`(?i)\b(authorization\s*:\s*)[^\s"'].*`, `$1`+Mask, "authorization"),
		other(`(?i)\b(bearer|basic)(\s+)[A-Za-z0-9._~+/=-]{8,}`, `$1$2`+Mask, "bearer", "basic"),
		named(`(?i)("name"\s*:\s*"[\w.-]*`+secretWord+`"\s*,\s*"value"\s*:\s*)`+quoted, `$1"`+Mask+`"`, `"value"`),
		named(`(?i)("value"\s*:\s*)`+quoted+`(\s*,\s*"name"\s*:\s*"[\w.-]*`+secretWord+`")`, `$1"`+Mask+`"$2`, `"value"`),
		named(`(?i)(\\+"name\\+"\s*:\s*\\+"[\w.-]*`+secretWord+`\\+"\s*,\s*\\+"value\\+"\s*:\s*\\+")[^"]*?(\\*")`, `$1`+Mask+`$2`, `\"`),
		named(`(?i)"([\w.-]*`+secretWord+`[:=]\s*)[^"\\]+"`, `"$1`+Mask+`"`, `"`), // of systemd
		named(name+`(\\+)"(?:[^"\\]|\\[^"])*\\+"`, `$1$2"`+Mask+`$2"`, `\"`),      // JSON within JSON
		named(name+`"(?:[^"\\]|\\.)*(?:"|\\?$)`, `$1"`+Mask+`"`, `"`),
		named(name+`'[^']*(?:'|$)`, `$1'`+Mask+`'`, "'"),
		named(line+`[:=]\s*["']\*\*\*HIDDEN\*\*\*["'])[^\s,;].*`, `$1`), // a quote within quoted text
		named(line+`:\s+)[^\s"'\[{|>].*`, `$1`+Mask),
		named(line+`=\s*)[^\s"'\[{](?:[^;]|;\S)*`, `$1`+Mask),
		named(name+`\[[^\]]+\]?`, `$1[`+Mask+`]`, "["),
		named(name+`[^\s"',;&\\}\]|>[](?:[^\s,;&}\]]*[^\s,;&}\]"'])?`, `$1`+Mask, ":", "="),
		named(`(?i)((?:^|\s)-{1,2}[\w-]*`+secretWord+`[ =]\s*)(?:`+quoted+`|'[^']*')`, `$1`+Mask),
		named(`(?i)((?:^|\s)-{1,2}[\w-]*`+secretWord+`[ =])\s*[^\s-]\S*`, `$1`+Mask),
		named(`(?i)\b(pass=)[^\s,;&"']+`, `$1`+Mask),
		named(`(?i)("pass"\s*:\s*)`+quoted, `$1"`+Mask+`"`, `"pass"`),
		named(`(?i)(\\+"pass\\+"\s*:\s*\\+")[^"]*?(\\*")`, `$1`+Mask+`$2`, `\"pass`),
		named(`(?i)((?:^|\blogin\s+\S+)\s*\bpassword\s+)[^\s:=]\S*(\s*)$`, `$1`+Mask+`$2`), // of a .netrc
		other(`(?i)((?:^|[\s{,"'])_?auth\\*["']?\s*[:=]\s*\\*["']?)[A-Za-z0-9+/=_-]{8,}`, `$1`+Mask, "auth"),
		other(`(\s(?:-u|--user|--proxy-user)[ =]["']?[^\s:"']+:)[^\s"']+`, `$1`+Mask, "-u", "-user"),
		other(`(?i)([?&](?:x-amz-signature|x-goog-signature|signature|sig)=)[^&\s"']+`, `$1`+Mask, "sig"),
		other(`\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*)?`, Mask, "eyj"),
		// A password may contain an @, and an invalid port a slash. A long name without a password is a token.
		other(`(://[^/\s:@\["']*:)(?:\d*[^\d/\s"'][^\s"']*|\d+)@`, `$1`+Mask+`@`, "://"),
		other(`(://)[^/\s:@"'*]{12,}@`, `$1`+Mask+`@`, "://"),
	}...)
}

// Redactor masks one text after another. It is not for use by more than one goroutine.
type Redactor struct {
	known                           []string
	rules                           []rule
	joinToken, alone                *regexp.Regexp
	keyBegin, keyEnd, encoded       *regexp.Regexp
	blockBegin, nameLine, valueLine *regexp.Regexp
	openQuote, entry                *regexp.Regexp
}

// New makes a Redactor.
func New() *Redactor {
	return &Redactor{
		rules:     lineRules(),
		joinToken: regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b(?: [0-9a-f]{64}\b)?`), // of kubeadm, and the key of certificates in the command that joins
		alone:     regexp.MustCompile(`^(\s*)[0-9a-f]{64}\s*$`),                            // how kubeadm prints the key of certificates
		keyBegin:  regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`),
		keyEnd:    regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----`),
		encoded:   regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/]+=*`), // "-----BEGIN" in base64
		// a block of YAML under the name of a secret, or another continuation
		blockBegin: regexp.MustCompile(`(?i)^(\s*)(?:- )?["']?[\w.-]*` + secretWord + `["']?\s*:\s*([|>][0-9+-]*|[\[{]|)\s*$`),
		openQuote:  regexp.MustCompile(`(?i)^(\s*)(?:- )?["']?[\w.-]*` + secretWord + `["']?\s*:\s*(?:"(?:[^"\\]|\\.)*\\?|'[^']*|[^\s"'\[{|>].*)$`),
		entry:      regexp.MustCompile(`^\s*(?:- )?["']?[\w./-]+["']?\s*:(?:\s|$)|^\s*(?:[\]}],?|#.*)$`),
		// an entry of an environment: its name, then its value
		nameLine:  regexp.MustCompile(`(?i)["']?name["']?\s*:\s*["']?[\w.-]*` + secretWord + `["']?,?\s*$`),
		valueLine: regexp.MustCompile(`^(\s*(?:- )?["']?value["']?\s*:\s*)(.+?)(,?\s*)$`),
	}
}

// state is the context from earlier lines.
type state struct {
	keyLines int  // lines of a private key so far; 0 outside of one
	inBlock  bool // of YAML
	literal  bool // the block is one value: nothing in it has a separate name
	indent   int  // of the line that began the block
	named    int  // how many lines on the value may stand of the secret that was named
}

// valueWithin is the maximum number of lines between a name and its value: there may be comments.
const valueWithin = 3

// line masks one line.
func (d *Redactor) line(s *state, text []byte) []byte {
	if s.keyLines > 0 {
		return d.insideKey(s, text)
	}
	if s.inBlock {
		if len(bytes.TrimSpace(text)) == 0 {
			return text
		}
		indent := indentation(text)
		switch {
		case indent < s.indent, indent == s.indent && (s.literal || !bytes.HasPrefix(text[indent:], []byte("- "))):
			s.inBlock = false
		case s.literal || !d.entry.Match(text):
			if d.keyBegin.Match(text) && !d.keyEnd.Match(text) { // whose lines may stand further left
				s.keyLines = 1
			}
			return append(bytes.Repeat([]byte(" "), indent), Mask...)
		}
	}
	return d.outside(s, text)
}

// outside masks a line that is not part of a secret.
func (d *Redactor) outside(s *state, text []byte) []byte {
	if crowded(text) {
		s.named, s.inBlock, s.literal, s.indent = 0, true, false, indentation(text)
		if d.keyBegin.Match(text) && !d.keyEnd.Match(text) {
			s.keyLines = 1
		}
		return []byte(Mask + " (a long line with many names of secrets)")
	}
	if s.named > 0 {
		s.named--
		if m := d.valueLine.FindSubmatch(text); m != nil {
			s.named = 0
			if m[2][0] == '|' || m[2][0] == '>' {
				s.inBlock, s.literal, s.indent = true, true, indentation(text)
				return text
			}
			text = d.valueLine.ReplaceAll(text, []byte(`$1"`+Mask+`"$3`))
		}
	}
	if has(bytes.ToLower(text), secretRoots()) {
		if m := d.blockBegin.FindSubmatch(text); m != nil {
			s.inBlock, s.literal, s.indent = true, bytes.ContainsAny(m[2], "|>"), len(m[1])
			return text
		}
		if m := d.openQuote.FindSubmatch(text); m != nil { // and continues, if the next line is indented further
			s.inBlock, s.literal, s.indent = true, false, len(m[1])
		}
		if d.nameLine.Match(text) {
			s.named = valueWithin
		}
	}
	if at := d.keyBegin.FindIndex(text); at != nil {
		if end := d.keyEnd.FindIndex(text[at[1]:]); end != nil { // with its line ends written out
			rest := d.line(s, text[at[1]+end[1]:])
			return append(append(d.words(text[:at[0]]), Mask...), rest...)
		}
		s.keyLines = 1
		return append(d.words(text[:at[0]]), Mask...)
	}
	return d.words(text)
}

// How long a line with a name of a secret may be, in bytes, and how many such names it may have. Searching for all forms takes time
// that grows with both: longer lines are masked whole.
const (
	maxNamedLine = 16 << 10
	maxNames     = 64
)

func crowded(text []byte) bool {
	if len(text) < maxNames*len("key") {
		return false
	}
	small, names := bytes.ToLower(text), 0
	for _, root := range secretRoots() {
		names += bytes.Count(small, []byte(root))
	}
	return names > maxNames || names > 0 && len(text) > maxNamedLine
}

func (d *Redactor) insideKey(s *state, text []byte) []byte {
	s.keyLines++
	if end := d.keyEnd.FindIndex(text); end != nil {
		s.keyLines = 0
		return append([]byte(Mask), d.line(s, text[end[1]:])...)
	}
	if s.keyLines > maxKeyLines {
		s.keyLines = 0
	}
	return []byte(Mask)
}

func indentation(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t")) }

// words masks secrets that a line reveals by itself.
func (d *Redactor) words(text []byte) []byte {
	text = d.withoutKnown(text)
	text = d.encoded.ReplaceAllFunc(text, func(found []byte) []byte {
		head := make([]byte, 96)
		n, _ := base64.StdEncoding.Decode(head, found[:min(len(found), 96)/4*4])
		if bytes.Contains(head[:n], []byte("PRIVATE KEY")) {
			return []byte(Mask)
		}
		return found
	})
	small := bytes.ToLower(text)
	named := has(small, secretRoots())
	for _, r := range d.rules {
		if (r.signs == nil && named || has(small, r.signs)) && (r.marks == nil || has(small, r.marks)) {
			text = r.form.ReplaceAll(text, []byte(r.becomes))
		}
	}
	if likeJoinToken(text) {
		text = d.joinToken.ReplaceAll(text, []byte(Mask))
	}
	if len(bytes.TrimSpace(text)) == 64 {
		text = d.alone.ReplaceAll(text, []byte(`$1`+Mask))
	}
	return text
}

func has(text []byte, signs []string) bool {
	for _, sign := range signs {
		if bytes.Contains(text, []byte(sign)) {
			return true
		}
	}
	return false
}

// likeJoinToken reports whether a point in text has sixteen letters or digits after it.
func likeJoinToken(text []byte) bool {
	after := -1 // since the last point; -1 is before any
	for _, c := range text {
		switch {
		case c == '.':
			after = 0
		case after >= 0 && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9'):
			if after++; after == 16 {
				return true
			}
		default:
			after = -1
		}
	}
	return false
}
