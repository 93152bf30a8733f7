/* Prints the endpoint table of README.md from the route table, so that the two can not differ.
   Used by tools/docs.sh. */
#include <stdio.h>

#include "api/call.h"

int main(void)
{
  puts("| endpoint | scope | what it does |");
  puts("|---|---|---|");
  for (size_t i = 0; i < api_route_count; i++) {
    const struct route *route = &api_routes[i];
    printf("| `%s %s` | %s | %s |\n", route->method, route->pattern, scope_name(route->scope), route->summary);
  }
  return ferror(stdout) != 0 || fflush(stdout) != 0;
}
