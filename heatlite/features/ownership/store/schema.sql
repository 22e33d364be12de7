CREATE TABLE "unnamed_resource" ("resource_id" VARCHAR(36) NOT NULL PRIMARY KEY, "stack_id" VARCHAR(36) NOT NULL, "name" VARCHAR(255) NOT NULL)
CREATE INDEX "unnamedresource_stack_id" ON "unnamed_resource" ("stack_id")
