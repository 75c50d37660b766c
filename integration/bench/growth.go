package main

func (w *world) growth(out string) error     { return nil }
func (w *world) throughput(out string) error { return nil }
