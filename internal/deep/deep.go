// Package deep copies the objects of an API: structs, pointers, slices, maps and values of any type below each other. Unexported
// fields are copied shallowly, as those of a time.
package deep

import (
	"reflect"
	"sync"
)

// Copy returns a copy that shares nothing with the original which could be changed.
func Copy[T any](in *T) *T {
	out := new(T)
	fill(reflect.ValueOf(out).Elem(), reflect.ValueOf(in).Elem())
	return out
}

// fill copies from to to, which is zero.
func fill(to, from reflect.Value) {
	if plain(from.Type()) {
		to.Set(from)
		return
	}
	switch from.Kind() {
	case reflect.Struct:
		to.Set(from)
		for i := range from.NumField() {
			if field := from.Type().Field(i); field.IsExported() && !plain(field.Type) {
				to.Field(i).SetZero()
				fill(to.Field(i), from.Field(i))
			}
		}
	case reflect.Array:
		for i := range from.Len() {
			fill(to.Index(i), from.Index(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			fill(to.Elem(), from.Elem())
		}
	case reflect.Interface:
		if !from.IsNil() {
			to.Set(copied(from.Elem()))
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			if plain(from.Type().Elem()) {
				reflect.Copy(to, from)
				return
			}
			for i := range from.Len() {
				fill(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for entry := from.MapRange(); entry.Next(); {
				to.SetMapIndex(entry.Key(), copied(entry.Value()))
			}
		}
	default: // functions and channels
		to.Set(from)
	}
}

func copied(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	fill(c, v)
	return c
}

var known sync.Map // whether a type is plain, by type

// plain reports whether an assignment copies all of a type.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return false
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		if is, ok := known.Load(t); ok {
			return is == true
		}
		is := true
		for field := range t.Fields() {
			is = is && (!field.IsExported() || plain(field.Type))
		}
		known.Store(t, is)
		return is
	default:
		return true
	}
}
