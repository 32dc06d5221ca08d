package values

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// Functions whose results may be much larger than their arguments are replaced. Each computes the size of its result before it makes
// it: a limit that is looked at afterwards comes too late for the memory of the hub.

// growing returns the functions that take the place of sprig's.
func growing() template.FuncMap {
	all := sprig.TxtFuncMap()
	replaceAll, _ := all["regexReplaceAll"].(func(string, string, string) string)
	mustReplaceAll, _ := all["mustRegexReplaceAll"].(func(string, string, string) (string, error))
	replaceLiteral, _ := all["regexReplaceAllLiteral"].(func(string, string, string) string)
	mustReplaceLiteral, _ := all["mustRegexReplaceAllLiteral"].(func(string, string, string) (string, error))
	join, _ := all["join"].(func(string, any) string)
	split, _ := all["split"].(func(string, string) map[string]string)
	wrapWith, _ := all["wrapWith"].(func(int, string, string) string)
	return template.FuncMap{
		"repeat": func(count int, text string) string {
			fits(len(text), count)
			return strings.Repeat(text, count)
		},
		"replace": func(old, with, text string) string {
			fits(len(with), strings.Count(text, old))
			return strings.ReplaceAll(text, old, with)
		},
		"indent":  indent,
		"nindent": func(spaces int, text string) string { return "\n" + indent(spaces, text) },
		"join": func(separator string, list any) string {
			if v := reflect.ValueOf(list); v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
				fits(len(separator), v.Len())
			}
			return join(separator, list)
		},
		"split": func(separator, text string) map[string]string {
			if strings.Count(text, separator) > maxCount {
				panic(fmt.Errorf("%w: more than %d parts", ErrLimit, maxCount))
			}
			return split(separator, text)
		},
		"wrapWith": func(length int, separator, text string) string {
			fits(len(separator), len(text)/max(1, length)+1)
			return wrapWith(length, separator, text)
		},
		"regexReplaceAll": func(expression, text, with string) string {
			replacesFit(expression, text, with)
			return replaceAll(expression, text, with)
		},
		"mustRegexReplaceAll": func(expression, text, with string) (string, error) {
			replacesFit(expression, text, with)
			return mustReplaceAll(expression, text, with)
		},
		"regexReplaceAllLiteral": func(expression, text, with string) string {
			replacesFit(expression, text, with)
			return replaceLiteral(expression, text, with)
		},
		"mustRegexReplaceAllLiteral": func(expression, text, with string) (string, error) {
			replacesFit(expression, text, with)
			return mustReplaceLiteral(expression, text, with)
		},
		// builtin functions that make text
		"print": fmt.Sprint, "println": fmt.Sprintln, "printf": printf,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	}
}

// fits panics if count parts of some bytes are more than a text may have.
func fits(bytes, count int) {
	if count > 0 && bytes > maxSize/count {
		panic(fmt.Errorf("%w: a value of more than %d bytes", ErrLimit, maxSize))
	}
}

func indent(spaces int, text string) string {
	fits(max(0, spaces), strings.Count(text, "\n")+1)
	pad := strings.Repeat(" ", spaces)
	return pad + strings.ReplaceAll(text, "\n", "\n"+pad)
}

// replacesFit bounds the result of regexReplaceAll. A reference such as $1 stands for at most the whole match, and all matches together
// are at most the text.
func replacesFit(expression, text, with string) {
	r, err := regexp.Compile(expression)
	if err != nil {
		return // the function says it
	}
	fits(len(text), strings.Count(with, "$"))
	if len(with) > 0 {
		limit := maxSize/len(with) + 1
		fits(len(with), len(r.FindAllStringIndex(text, limit)))
	}
}

// A verb of printf may have numbers: width, precision, and the index of its argument.
var (
	verbs   = regexp.MustCompile(`%[^a-zA-Z%]*`)
	numbers = regexp.MustCompile(`\d+`)
)

func printf(format string, args ...any) (string, error) {
	largest := 0
	for _, arg := range args {
		largest = max(largest, weight(reflect.ValueOf(arg), 0))
	}
	total := 0
	for _, verb := range verbs.FindAllString(format, -1) {
		if strings.Contains(verb, "*") {
			return "", fmt.Errorf("%w: a width in %q", ErrLimit, verb)
		}
		if strings.Contains(verb, "[") { // an argument that may be printed again and again
			total += largest
		}
		for _, number := range numbers.FindAllString(verb, -1) {
			n, err := strconv.Atoi(number)
			if total += n; err != nil || total > maxSize {
				return "", fmt.Errorf("%w: a width in %q", ErrLimit, verb)
			}
		}
		if total > maxSize {
			return "", fmt.Errorf("%w: a value of more than %d bytes", ErrLimit, maxSize)
		}
	}
	return fmt.Sprintf(format, args...), nil
}

// A value weighs what its text needs: its strings, and for each member the JSON or YAML around it, with a line that is indented. Members
// that a value has twice count twice, as they do in text: lists of lists double with a few bytes of template.
const (
	memberWeight = 16
	levelWeight  = 4
	maxWeight    = 4 << 20
)

// weight returns the weight of a value at a depth, or more than maxWeight if it has more. A value that is a member of itself has more.
func weight(v reflect.Value, depth int) int {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		if depth++; v.IsNil() || depth > maxWeight {
			return 0
		}
		v = v.Elem()
	}
	each := memberWeight + levelWeight*depth
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		if depth == 0 {
			return len(text)
		}
		return len(text) + levelWeight*depth*strings.Count(text, "\n")
	case reflect.Slice, reflect.Array:
		total := v.Len() * each
		switch v.Type().Elem().Kind() {
		case reflect.Uint8:
			return v.Len()
		case reflect.String, reflect.Interface, reflect.Slice, reflect.Map, reflect.Pointer, reflect.Struct:
		default:
			return total
		}
		for i := 0; i < v.Len() && total <= maxWeight; i++ {
			total += weight(v.Index(i), depth+1)
		}
		return total
	case reflect.Map:
		total := v.Len() * each
		for i := v.MapRange(); total <= maxWeight && i.Next(); {
			total += weight(i.Key(), depth+1) + weight(i.Value(), depth+1)
		}
		return total
	case reflect.Struct: // of a library: a version, a time, a certificate
		total := each
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.String {
				total += f.Len()
			}
		}
		return total
	}
	return 0
}

// made returns how much memory a function took for its result, roughly. Functions that change a dict return the same one.
func made(function string, result reflect.Value) int {
	switch function {
	case "set", "unset":
		return 0
	case "deepCopy", "mustDeepCopy", "fromJson", "mustFromJson":
		return weight(result, 0)
	}
	if result.Kind() == reflect.Interface {
		result = result.Elem()
	}
	switch result.Kind() {
	case reflect.String:
		return result.Len()
	case reflect.Slice, reflect.Map:
		return memberWeight * result.Len()
	}
	return 0
}

// show bounds what is printed.
func (g *guard) show(value any) (any, error) {
	if weight(reflect.ValueOf(value), 0) > maxWeight {
		return nil, fmt.Errorf("%w: a value of more than %d bytes", ErrLimit, maxWeight)
	}
	return value, g.step()
}
