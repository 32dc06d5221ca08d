package manifest

import (
	"slices"

	"github.com/sealift/sealift/internal/diag"
)

// syntax reads the directives of one kind.
type syntax struct {
	keywords []string
	// parse builds a directive from the words after the keyword, or reports mistakes and returns nil.
	parse func(keyword string, args []string, at Origin, problems *diag.List) Directive

	// kurl returns the args that kURL's builder reads (kURL §1.3). It is nil for a kind that kURL does not have.
	kurl func(args []string) []string
}

// atMost returns a function that cuts off words after the first n.
func atMost(n int) func(args []string) []string {
	return func(args []string) []string { return args[:min(n, len(args))] }
}

// syntaxes is where the kinds of directive are registered, in the order in which help and suggestions name them.
func syntaxes() []syntax {
	return []syntax{imageSyntax(), assetSyntax(), chartSyntax(), dockeroutSyntax(), hostPackageSyntax()}
}

// Keywords lists every directive, in the order in which help and suggestions name them.
func Keywords() []string {
	var words []string
	for _, s := range syntaxes() {
		words = append(words, s.keywords...)
	}
	return words
}

// directive builds a directive from a line's words, or reports mistakes and returns nil. byKURL takes no notice of words that kURL does not read.
func directive(words []string, byKURL bool, at Origin, problems *diag.List) Directive {
	keyword, args := words[0], words[1:]
	for _, s := range syntaxes() {
		if slices.Contains(s.keywords, keyword) {
			if byKURL && s.kurl != nil {
				args = s.kurl(args)
			}
			return s.parse(keyword, args, at, problems)
		}
	}
	problems.Errorf(at.Pos, diag.DidYouMean(keyword, Keywords(), "known: "), "unknown directive %q", keyword)
	return nil
}
