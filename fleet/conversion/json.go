package conversion

// child returns a member that is an object, or nil.
func child(o object, key string) object {
	c, _ := o[key].(object)
	return c
}

// items returns the members of a list that are objects.
func items(list any) []object {
	var found []object
	all, _ := list.([]any)
	for _, item := range all {
		if o, ok := item.(object); ok {
			found = append(found, o)
		}
	}
	return found
}

// take removes a member and returns it.
func take(o object, key string) (any, bool) {
	value, found := o[key]
	delete(o, key)
	return value, found
}

// move moves members from one object to another.
func move(from, to object, keys ...string) {
	for _, key := range keys {
		if value, found := take(from, key); found {
			to[key] = value
		}
	}
}

func rename(o object, from, to string) {
	if value, found := take(o, from); found {
		o[to] = value
	}
}

// keep moves a member that v1beta1 lacks into the annotation, and restore moves it back.
func keep(o, left object, key string) { move(o, left, key) }

func restore(o, left object, key string) {
	if o != nil {
		move(left, o, key)
	}
}

func annotate(o object, key, value string) {
	metadata := child(o, "metadata")
	if metadata == nil {
		metadata = object{}
		o["metadata"] = metadata
	}
	annotations := child(metadata, "annotations")
	if annotations == nil {
		annotations = object{}
		metadata["annotations"] = annotations
	}
	annotations[key] = value
}

// unannotate removes an annotation and returns it.
func unannotate(o object, key string) (string, bool) {
	metadata := child(o, "metadata")
	annotations := child(metadata, "annotations")
	value, found := take(annotations, key)
	if found && len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	text, ok := value.(string)
	return text, found && ok
}
