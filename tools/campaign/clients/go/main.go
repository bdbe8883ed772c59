package main

import _ "github.com/gocql/gocql"

func main() {}
