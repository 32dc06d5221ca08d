package template

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/sealift/sealift/fleet/ocm"
)

// registriesAnnotation is the annotation of a ManagedCluster that names mirrors.
const registriesAnnotation = "open-cluster-management.io/image-registries"

// Mirrors returns the mirrors of a cluster. Those of a configuration replace those of the cluster's annotation.
func Mirrors(annotations map[string]string, config []ocm.ImageMirror) ([]ocm.ImageMirror, error) {
	if len(config) > 0 {
		return config, nil
	}
	text, found := annotations[registriesAnnotation]
	if !found || text == "" {
		return nil, nil
	}
	var content struct {
		Registries []ocm.ImageMirror `json:"registries"`
	}
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", registriesAnnotation, err)
	}
	return content.Registries, nil
}

// Image returns the name under which a cluster finds an image. Sources match by text, and the last one that matches wins.
// An empty source matches any image and keeps the last part of its name.
func Image(mirrors []ocm.ImageMirror, image string) string {
	name := image
	for _, m := range mirrors {
		source, mirror := strings.TrimSuffix(m.Source, "/"), strings.TrimSuffix(m.Mirror, "/")
		switch {
		case source == "":
			name = strings.TrimPrefix(mirror+"/"+image[strings.LastIndex(image, "/")+1:], "/")
		case strings.HasPrefix(image, source):
			name = mirror + strings.TrimPrefix(image, source)
		}
	}
	return name
}

// RewriteImages changes the images of all pods that an object, or a list of objects, makes.
func RewriteImages(object map[string]any, mirrors []ocm.ImageMirror) {
	eachImage(object, func(image string) string { return Image(mirrors, image) })
}

// Images returns the images of all pods that an object, or a list of objects, makes.
func Images(object map[string]any) (images []string) {
	eachImage(object, func(image string) string {
		images = append(images, image)
		return image
	})
	return images
}

// Pinned reports whether an image is named by its digest.
func Pinned(image string) bool { return strings.Contains(image, "@") }

// pin adds the digests to images that are named without one.
func pin(object map[string]any, digests map[string]string) {
	eachImage(object, func(image string) string {
		if digest := digests[image]; digest != "" && !Pinned(image) {
			return image + "@" + digest
		}
		return image
	})
}

// eachImage renames each image of all pods of an object, or of a list of objects.
func eachImage(object map[string]any, rename func(string) string) {
	for _, pod := range pods(object) {
		for _, c := range containers(pod, "initContainers", "containers", "ephemeralContainers") {
			if image, ok := c["image"].(string); ok {
				c["image"] = rename(image)
			}
		}
		for _, volume := range objects(pod["volumes"]) { // one may be made of an image
			source, _ := volume["image"].(map[string]any)
			if image, ok := source["reference"].(string); ok && image != "" {
				source["reference"] = rename(image)
			}
		}
	}
}
