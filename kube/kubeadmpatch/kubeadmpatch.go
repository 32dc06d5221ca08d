// Package kubeadmpatch rewrites configurations of kubeadm, and patches of them, for the version that today's kubeadm reads. kURL
// add-ons have patches of older versions, which kURL also rewrites (docs/reference/kurl.md, kURL §1.5 and §3.1).
//
// While configuration and patches are merged, the arguments of a program are a map from name to value, as they were until
// v1beta3: kustomize merges maps by their keys, and replaces lists of kubeadm's as a whole.
package kubeadmpatch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/sealift/sealift/internal/strictyaml"
)

// APIVersion is what kubeadm reads.
const APIVersion = "kubeadm.k8s.io/v1beta4"

// older are the versions that can be raised.
var older = regexp.MustCompile(`^kubeadm\.k8s\.io/v1beta[1-3]$`)

// argumentLists are the fields with arguments of programs, by the kind of the document.
func argumentLists(kind string) [][]string {
	switch kind {
	case "ClusterConfiguration":
		return [][]string{{"apiServer", "extraArgs"}, {"controllerManager", "extraArgs"}, {"scheduler", "extraArgs"}, {"etcd", "local", "extraArgs"}}
	case "InitConfiguration", "JoinConfiguration":
		return [][]string{kubeletArguments}
	}
	return nil
}

// volumeLists are the fields with volumes of static pods, by the kind of the document.
func volumeLists(kind string) [][]string {
	if kind != "ClusterConfiguration" {
		return nil
	}
	return [][]string{{"apiServer", "extraVolumes"}, {"controllerManager", "extraVolumes"}, {"scheduler", "extraVolumes"}}
}

var kubeletArguments = []string{"nodeRegistration", "kubeletExtraArgs"}

// removedFlags are arguments that the kubelet no longer has and would not start with.
var removedFlags = []string{
	"allow-privileged", "cloud-config", "cni-bin-dir", "cni-cache-dir", "cni-conf-dir", "container-runtime", "docker-endpoint", "dynamic-config-dir",
	"image-pull-progress-deadline", "keep-terminated-pod-volumes", "logtostderr", "network-plugin", "network-plugin-mtu", "non-masquerade-cidr",
	"pod-infra-container-image", "register-schedulable",
}

// Mergeable rewrites the documents of a file for a merge: it converts those of an older version, and turns arguments and
// volumes into maps. It leaves documents of other APIs alone. The notes name what was left out.
func Mergeable(text []byte) (merged []byte, notes []string, err error) {
	var out bytes.Buffer
	text = bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n")) // as YAML reads them
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out.Bytes(), notes, nil
		}
		if err == nil {
			var more []string
			document, more, err = mergeable(document)
			notes = append(notes, more...)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("document %d: %w", number, err)
		}
		if out.Len() > 0 {
			out.WriteString("---\n")
		}
		out.Write(document)
		if !bytes.HasSuffix(document, []byte("\n")) {
			out.WriteByte('\n')
		}
	}
}

func mergeable(document []byte) ([]byte, []string, error) {
	data, err := strictyaml.ToJSON(document)
	if err != nil {
		return nil, nil, err
	}
	var object map[string]any
	if utiljson.Unmarshal(data, &object) != nil || !strings.HasPrefix(text(object["apiVersion"]), "kubeadm.k8s.io/") {
		return document, nil, nil //nolint:nilerr // only objects of kubeadm are converted
	}
	objects, notes := []map[string]any{object}, []string(nil)
	if older.MatchString(text(object["apiVersion"])) {
		if objects, notes, err = raise(object); err != nil {
			return nil, nil, err
		}
	}
	var documents [][]byte
	for _, object := range objects {
		if err := errors.Join(eachList(object, argumentLists, asMap), eachList(object, volumeLists, volumesAsMap)); err != nil {
			return nil, nil, err
		}
		data, err := yaml.Marshal(object)
		if err != nil {
			return nil, nil, err
		}
		documents = append(documents, data)
	}
	return bytes.Join(documents, []byte("---\n")), notes, nil
}

// raise brings a document to the version that kubeadm reads. A field that moved to another document makes one.
func raise(object map[string]any) (objects []map[string]any, notes []string, err error) {
	kind := text(object["kind"])
	if kind == "ClusterStatus" {
		return nil, nil, errors.New("kubeadm has no kind ClusterStatus since v1beta3; remove the document")
	}
	was := text(object["apiVersion"])
	object["apiVersion"] = APIVersion
	objects = []map[string]any{object}
	drop := func(path ...string) {
		if _, there := take(object, path...); there {
			notes = append(notes, fmt.Sprintf("%s of %s in %s is left out: kubeadm no longer has it", strings.Join(path, "."), kind, was))
		}
	}
	switch kind {
	case "ClusterConfiguration":
		drop("useHyperKubeImage")
		drop("dns", "type")
		if value, there := take(object, "apiServer", "timeoutForControlPlane"); there {
			objects = append(objects, map[string]any{"apiVersion": APIVersion, "kind": "InitConfiguration",
				"metadata": map[string]any{"name": "kubeadm-init-configuration"}, "timeouts": map[string]any{"controlPlaneComponentHealthCheck": value}})
		}
	case "JoinConfiguration":
		if value, there := take(object, "discovery", "timeout"); there {
			timeouts, _ := object["timeouts"].(map[string]any)
			if timeouts == nil {
				timeouts = map[string]any{}
			}
			timeouts["discovery"], object["timeouts"] = value, timeouts
		}
	}
	for _, flag := range removedFlags {
		drop(append(slices.Clone(kubeletArguments), flag)...)
	}
	return objects, notes, nil
}

// take removes a field and returns its value. Parents that become empty are removed too: in a patch they would have no effect.
func take(object map[string]any, path ...string) (value any, there bool) {
	if len(path) == 1 {
		value, there = object[path[0]]
		delete(object, path[0])
		return value, there
	}
	inner, ok := object[path[0]].(map[string]any)
	if !ok {
		return nil, false
	}
	if value, there = take(inner, path[1:]...); there && len(inner) == 0 {
		delete(object, path[0])
	}
	return value, there
}

// Finish turns the arguments and volumes of a merged document into the lists that kubeadm reads.
func Finish(object map[string]any) error {
	if text(object["apiVersion"]) != APIVersion {
		return nil
	}
	return errors.Join(eachList(object, argumentLists, asList), eachList(object, volumeLists, volumesAsList))
}

// eachList rewrites each of some fields that a document has.
func eachList(object map[string]any, lists func(kind string) [][]string, rewrite func(any) (any, error)) error {
	for _, path := range lists(text(object["kind"])) {
		inner, ok := object, true
		for _, name := range path[:len(path)-1] {
			if inner, ok = inner[name].(map[string]any); !ok {
				break
			}
		}
		name := path[len(path)-1]
		if !ok || inner[name] == nil {
			continue
		}
		rewritten, err := rewrite(inner[name])
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(path, "."), err)
		}
		inner[name] = rewritten
	}
	return nil
}

var errArguments = errors.New(`is neither a list of "name" and "value" nor a map from name to value`)

// asMap makes a map of a list of arguments. One that is given several times has a list of values.
func asMap(arguments any) (any, error) {
	list, ok := arguments.([]any)
	if !ok {
		if _, ok := arguments.(map[string]any); !ok {
			return nil, errArguments
		}
		return arguments, nil
	}
	values := map[string]any{}
	for _, one := range list {
		argument, _ := one.(map[string]any)
		name := text(argument["name"])
		if name == "" {
			return nil, errArguments
		}
		switch before := values[name].(type) {
		case nil:
			values[name] = argument["value"]
		case []any:
			values[name] = append(before, argument["value"])
		default:
			values[name] = []any{before, argument["value"]}
		}
	}
	return values, nil
}

// asList is the inverse of asMap, ordered by name.
func asList(arguments any) (any, error) {
	values, ok := arguments.(map[string]any)
	if !ok {
		return nil, errArguments
	}
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		several, ok := values[name].([]any)
		if !ok {
			several = []any{values[name]}
		}
		for _, value := range several {
			said, err := scalar(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			list = append(list, map[string]any{"name": name, "value": said})
		}
	}
	return list, nil
}

var errVolumes = errors.New(`is not a list of volumes, each with its own "name"`)

// volumesAsMap makes a map of a list of volumes by their names.
func volumesAsMap(volumes any) (any, error) {
	if _, ok := volumes.(map[string]any); ok {
		return volumes, nil
	}
	list, ok := volumes.([]any)
	if !ok {
		return nil, errVolumes
	}
	named := map[string]any{}
	for _, one := range list {
		volume, _ := one.(map[string]any)
		name := text(volume["name"])
		if name == "" || named[name] != nil {
			return nil, errVolumes
		}
		named[name] = volume
	}
	return named, nil
}

// volumesAsList is the inverse, ordered by name.
func volumesAsList(volumes any) (any, error) {
	named, ok := volumes.(map[string]any)
	if !ok {
		return nil, errVolumes
	}
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		list = append(list, named[name])
	}
	return list, nil
}

// scalar is the text of a value, as it stands on a command line.
func scalar(value any) (string, error) {
	switch value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	case bool:
		return strconv.FormatBool(value), nil
	case int64:
		return strconv.FormatInt(value, 10), nil
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64), nil
	}
	return "", errors.New("its value is not text")
}

func text(value any) string {
	said, _ := value.(string)
	return said
}
